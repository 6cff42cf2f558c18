"""SavedModels for tests, and TensorFlow's own answers to them, from one long-lived process that imports TensorFlow.

    half_plus_two(tmp_path / "half_plus_two", 1)                 # writes tmp_path/half_plus_two/1
    make("counter", tmp_path / "counter" / "1")
    run(tmp_path / "counter" / "1", {}, ["out:0"])               # a tf.compat.v1.Session, nothing of ours
    python -m tests.support.savedmodels KIND DEST [OPTION=VALUE ...]

The first call pays the import of TensorFlow (some seconds); the process ends with the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Array(NamedTuple):
    """A tensor without numpy: `data` is raw little-endian bytes in TensorFlow's memory layout, or a list of bytes for
    DT_STRING."""

    dtype: int
    shape: tuple[int, ...]
    data: bytes | list[bytes]


class TensorFlowError(Exception):
    """TensorFlow's own session refused: its code number and its text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class TensorFlowProcess:
    """A child with TensorFlow that answers one pickled call after the other over its standard streams."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def call(self, function: str, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            child = self._started()
            assert child.stdin is not None
            assert child.stdout is not None
            pickle.dump((function, arguments, options), child.stdin)
            child.stdin.flush()
            try:
                outcome, value = pickle.load(child.stdout)
            except EOFError:
                raise RuntimeError(f"the TensorFlow process ended with {child.wait()} in {function}") from None
        if outcome == "tensorflow":
            raise TensorFlowError(*value)
        if outcome == "failed":
            raise RuntimeError(f"{function} failed in the TensorFlow process:\n{value}")
        return value

    def stop(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.wait(timeout=20)
        child.stdout.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.support.tensorflow_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
            )
        return self._child


tensorflow_process = TensorFlowProcess()
atexit.register(tensorflow_process.stop)


def make(kind: str, destination: Path, **options: Any) -> Path:
    """Write a SavedModel of `kind` (a function of tests.support.savedmodel_kinds) as the directory `destination`.

    The directory appears whole: it is written beside itself under a name that no version scan takes.
    """
    destination = destination.absolute()
    destination.parent.mkdir(parents=True, exist_ok=True)
    staging = destination.with_name(f".{destination.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)
    tensorflow_process.call("make", kind, str(staging), **options)
    staging.rename(destination)
    return destination


def half_plus_two(base_path: Path, version: int | str, b: float = 2.0) -> Path:
    """TF Serving's example: y = 0.5 x + b, with its classify and regress signatures, in `base_path`/`version`."""
    return make("half_plus_two", base_path / str(version), b=b)


def half_plus_three(base_path: Path, version: int | str) -> Path:
    """half_plus_two with b = 3."""
    return half_plus_two(base_path, version, b=3.0)


def counter(base_path: Path, version: int | str) -> Path:
    """A TF1 counter of reference variables; `get_counter`, `incr_counter`, `reset_counter` take no input."""
    return make("counter", base_path / str(version))


def run(saved_model: Path, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
    """What TensorFlow's session answers; one session per directory lives on between calls.

    Raises TensorFlowError with the session's code and text.
    """
    answer = tensorflow_process.call("run", str(saved_model.absolute()), dict(feeds), list(fetches))
    return [Array(*item) for item in answer]


def load_error(saved_model: Path) -> TensorFlowError:
    """The error that TensorFlow raises for a SavedModel which must not load."""
    try:
        run(saved_model, {}, [])
    except TensorFlowError as error:
        return error
    raise AssertionError(f"TensorFlow loads {saved_model}")


def signatures(saved_model: Path) -> dict[str, dict[str, Any]]:
    """Per signature: `inputs` and `outputs`, each alias -> (tensor name, dtype of the graph's node, TensorInfo dtype),
    and `method`."""
    result: dict[str, dict[str, Any]] = tensorflow_process.call("signatures", str(saved_model.absolute()))
    return result


def dtypes() -> dict[int, tuple[str, int]]:
    """TensorFlow's own table: number -> (enum name, bytes per element)."""
    result: dict[int, tuple[str, int]] = tensorflow_process.call("dtypes")
    return result


def records(path: Path) -> list[bytes]:
    """The records of a TFRecord file. Raises TensorFlowError with the reader's text."""
    result: list[bytes] = tensorflow_process.call("records", str(path))
    return result


def main(arguments: Sequence[str]) -> None:
    kind, destination, *options = arguments
    parsed = {name: json.loads(value) for name, _, value in (option.partition("=") for option in options)}
    print(make(kind, Path(destination), **parsed))


if __name__ == "__main__":
    main(sys.argv[1:])
