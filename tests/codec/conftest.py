from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest


class TensorFlowOracle:
    """Asks a process that holds TensorFlow."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def parse(self, data: bytes) -> dict[str, Any]:
        return self._ask({"ask": "parse", "data": data.hex()})

    def ndarray(self, data: bytes) -> dict[str, Any]:
        return self._ask({"ask": "ndarray", "data": data.hex()})

    def tensor_proto(self, dtype: int, shape: tuple[int, ...], data: bytes) -> bytes:
        answer = self._ask({"ask": "tensor_proto", "dtype": dtype, "shape": shape, "data": data.hex()})
        return bytes.fromhex(answer["serialized"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process with TensorFlow ended at {question}"
        answer: dict[str, Any] = json.loads(line)
        assert "failure" not in answer, answer["failure"]
        return answer


@pytest.fixture(scope="session")
def tensorflow() -> Iterator[TensorFlowOracle]:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-m", "tests.codec.tensorflow_oracle"]
    with subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        yield TensorFlowOracle(process)
        assert process.stdin is not None
        process.stdin.close()
