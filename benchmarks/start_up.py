"""From the start of `bridge serve` to READY with one small model: python -m benchmarks.start_up [--rounds N]

The first start makes the state directory and is left out; the others find it, and the files in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.runner_speed import MODEL
from examples.server import serving

ROUNDS = 5


def start_up(scratch: Path, *, rounds: int = ROUNDS) -> dict[str, Any]:
    """Seconds to READY, which says that the model answers."""
    scratch.mkdir(parents=True, exist_ok=True)
    seconds = [_start(scratch) for _ in range(rounds + 1)]
    return {
        "load_average": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "first_s": round(seconds[0], 2),
        "warm_s": round(median(seconds[1:]), 2),
        "best_warm_s": round(min(seconds[1:]), 2),
    }


def _start(scratch: Path) -> float:
    flags = ["--model_name=half_plus_two", f"--model_base_path={MODEL.parent}", "--log_level=warning"]
    begin = time.monotonic()
    with serving(scratch / "state", flags):
        return time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures how long a server takes to be ready.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bridge-bench-") as scratch:
        print(json.dumps(start_up(Path(scratch), rounds=arguments.rounds), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
