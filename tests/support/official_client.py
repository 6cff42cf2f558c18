"""The official tensorflow-serving-api client, from a long-lived process that imports TensorFlow.

with OfficialClient() as client:
    client.ask(server.grpc, "predict", spec={"name": "half"}, inputs={"x": {"dtype": "float32", "values": [1.0]}})
    with client.loop(server.grpc, name="numbered") as loop:
        ...
    assert loop.clean
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import savedmodels
from tests.support.waiting import wait_for

Answer = dict[str, Any]


def export(base_path: Path, version: int, directory: str = "") -> Path:
    """A half_plus_two whose bias is the version modulo 1000, so that each answer tells who gave it."""
    return savedmodels.half_plus_two(base_path, directory or version, b=float(version % 1000))


class OfficialClient:
    """The process; it ends with the block. Every question has a channel of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.support.official_client_process"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._read() == {"ready": True}

    def ask(self, address: str, rpc: str, **question: Any) -> Answer:
        """The answer of one call at HOST:PORT; `code` and `details` where it failed."""
        return self._call({"rpc": rpc, "to": address, **question})

    def predict(self, address: str, values: Any, *, filter: tuple[str, ...] = (), **spec: Any) -> Answer:
        """Predict with one float input `x`."""
        inputs = {"x": {"dtype": "float32", "values": values}}
        return self.ask(address, "predict", spec=spec, inputs=inputs, filter=filter)

    @contextmanager
    def loop(self, address: str, **spec: Any) -> Iterator[Loop]:
        """Predict without an end on a model that `export` made, from the first good answer on."""
        loop = Loop(self, self._call({"rpc": "loop_start", "to": address, "spec": spec})["loop"])
        try:
            loop.wait_for_answers(1)
            yield loop
        finally:
            loop.stop()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, question: Mapping[str, Any]) -> Answer:
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Answer:
        assert self._process.stdout is not None
        answer: Answer = json.loads(self._process.stdout.readline())
        return answer


class Loop:
    """A client that predicts again and again in the other process. After the block its last tally stays."""

    def __init__(self, client: OfficialClient, number: int) -> None:
        self._client = client
        self._number = number
        self._last: Answer | None = None

    @property
    def tally(self) -> Answer:
        return self._last or self._client._call({"rpc": "loop_tally", "loop": self._number})

    @property
    def clean(self) -> bool:
        """Every request was answered, and rightly."""
        return not self.tally["errors"] and not self.tally["wrong"]

    def wait_for_answers(self, count: int, seconds: float = 20.0) -> None:
        """Wait for `count` further good answers."""
        goal = self.tally["ok"] + count
        wait_for(lambda: self.tally["ok"] >= goal, seconds, f"{count} more answers of {self.tally}")

    def wait_for_version(self, version: int, seconds: float = 20.0) -> None:
        """Wait until the newest answer is of `version`."""
        wait_for(lambda: self.tally["versions"][-1:] == [version], seconds, f"version {version} in {self.tally}")

    def stop(self) -> None:
        self._last = self._client._call({"rpc": "loop_stop", "loop": self._number})
