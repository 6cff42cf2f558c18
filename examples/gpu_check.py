"""Runs half_plus_two on a GPU through the whole server and says whether it did: python -m examples.gpu_check

Where `nvidia-smi` shows no GPU it says that nothing was run, and exits 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from examples.server import serving
from model_repo_sync.device import nvidia_gpu_visible

MODEL = "half_plus_two"
BASE_PATH = Path(__file__).parent / "models" / MODEL
QUESTION = {"instances": [1.0, 2.0, 5.0]}
ANSWER = {"predictions": [2.5, 3.0, 4.5]}


def main() -> int:
    if not nvidia_gpu_visible():
        print("gpu-check did not run: nvidia-smi shows no GPU here.")
        return 0
    print(query("name,driver_version,memory.total"))
    with tempfile.TemporaryDirectory(prefix="bridge-gpu-") as directory:
        flags = [f"--model_name={MODEL}", f"--model_base_path={BASE_PATH}", "--device=gpu"]
        with serving(Path(directory) / "state", flags) as server:
            answer = predict(f"http://{server.rest}/v1/models/{MODEL}:predict")
            print(f"GPU memory in use: {query('memory.used')}")
    print(f"{MODEL} on the GPU answered {answer}")
    return 0 if answer == ANSWER else 1


def predict(url: str) -> object:
    request = urllib.request.Request(url, json.dumps(QUESTION).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: object = json.load(response)
    return answer


def query(fields: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
