"""A bridge-like process for tests to kill: runs an embedded Triton and prints its pid, addresses and prefix as JSON.

python -m tests.triton.embedded_parent STATE_DIR RUNNER_DIR [MODEL_THAT_IS_BEING_LOADED]
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import tritonclient.grpc as grpcclient

from bridge.state_dir import StateDir
from bridge.triton.embedded import EmbeddedTriton


def main() -> None:
    state = StateDir(sys.argv[1])
    state.acquire()
    triton = EmbeddedTriton(state, runner=Path(sys.argv[2]))
    triton.start()
    triton.wait_ready()
    client = grpcclient.InferenceServerClient(triton.grpc)
    for model in sys.argv[3:]:
        threading.Thread(target=client.load_model, args=(model,), daemon=True).start()
    print(
        json.dumps({"pid": triton.pid, "grpc": triton.grpc, "prefix": triton.shared_memory_prefix}),
        flush=True,
    )
    sys.stdin.read()


if __name__ == "__main__":
    main()
