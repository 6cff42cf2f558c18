"""The backend directory of the embedded Triton: the wheel's Python backend and `tensorflow_runner` upon it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import model_repo_sync
from bridge.triton.wheel import INSTALL, EmbeddedUnavailable, TritonWheel

RUNNER = "tensorflow_runner"


def build(directory: Path, wheel: TritonWheel, runner: Path) -> None:
    """Bring `directory` to the state that Triton needs; what is right already stays untouched.

    Triton refuses a backend library that is a symbolic link out of the directory, so it is copied. The stub has to be
    a link: it finds its CUDA runtime relative to its real path. `runner` is the directory that holds model.py; raises
    EmbeddedUnavailable where it does not.
    """
    if not (runner / "model.py").is_file():
        raise EmbeddedUnavailable(f"The runner '{runner / 'model.py'}' is missing; reinstall it with {INSTALL}.")
    python = directory / "python"
    python.mkdir(parents=True, exist_ok=True)
    _copy(wheel.backend_library, python / wheel.backend_library.name)
    _link(wheel.stub, python / wheel.stub.name)
    _link(wheel.backend_utilities, python / wheel.backend_utilities.name)
    _link(runner, directory / RUNNER)


def runner_directory() -> Path:
    """`tensorflow_runner` as model_repo_sync carries it."""
    return Path(model_repo_sync.__file__).parent / "runner"


def _copy(source: Path, target: Path) -> None:
    if target.is_file() and not target.is_symlink() and _stamp(target) == _stamp(source):
        return
    partial = target.with_name(f".{target.name}.partial")
    shutil.copy2(source, partial)
    partial.replace(target)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _link(source: Path, target: Path) -> None:
    if target.is_symlink() and os.readlink(target) == str(source):
        return
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(source)
    partial.replace(target)
