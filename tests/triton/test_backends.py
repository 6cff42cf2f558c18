"""The embedded Triton's backend directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.triton import backends
from bridge.triton.wheel import EmbeddedUnavailable, TritonWheel


@pytest.fixture
def wheel(tmp_path: Path) -> TritonWheel:
    source = tmp_path / "wheel"
    source.mkdir()
    names = ("tritonserver", "libtriton_python.so", "triton_python_backend_utils.py", "triton_python_backend_stub")
    paths = [source / name for name in names]
    for path in paths:
        path.write_text(path.name)
    return TritonWheel(*paths)


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    directory = tmp_path / "runner"
    directory.mkdir()
    (directory / "model.py").touch()
    return directory


def test_layout(tmp_path: Path, wheel: TritonWheel, runner: Path) -> None:
    directory = tmp_path / "backends"
    backends.build(directory, wheel, runner)
    library = directory / "python" / "libtriton_python.so"
    assert library.read_text() == "libtriton_python.so"
    assert not library.is_symlink()
    assert os.readlink(directory / "python" / "triton_python_backend_stub") == str(wheel.stub)
    assert os.readlink(directory / "python" / "triton_python_backend_utils.py") == str(wheel.backend_utilities)
    assert (directory / "tensorflow_runner" / "model.py").is_file()


def test_a_second_build_touches_nothing(tmp_path: Path, wheel: TritonWheel, runner: Path) -> None:
    directory = tmp_path / "backends"
    backends.build(directory, wheel, runner)
    before = {path: path.lstat() for path in directory.rglob("*")}
    backends.build(directory, wheel, runner)
    assert {path: path.lstat() for path in directory.rglob("*")} == before


def test_changed_sources_are_renewed(tmp_path: Path, wheel: TritonWheel, runner: Path) -> None:
    directory = tmp_path / "backends"
    backends.build(directory, wheel, runner)
    wheel.backend_library.write_text("a newer library")
    moved = runner.rename(tmp_path / "moved")
    backends.build(directory, wheel, moved)
    assert (directory / "python" / "libtriton_python.so").read_text() == "a newer library"
    assert os.readlink(directory / "tensorflow_runner") == str(moved)
    assert not [path for path in directory.rglob("*") if path.name.endswith(".partial")]


def test_a_directory_in_the_place_of_the_runner_gives_way(tmp_path: Path, wheel: TritonWheel, runner: Path) -> None:
    old = tmp_path / "backends" / "tensorflow_runner"
    old.mkdir(parents=True)
    (old / "model.py").write_text("old")
    backends.build(tmp_path / "backends", wheel, runner)
    assert os.readlink(old) == str(runner)


def test_a_missing_runner_is_named(tmp_path: Path, wheel: TritonWheel) -> None:
    with pytest.raises(EmbeddedUnavailable, match=r"'.*nowhere/model\.py' is missing"):
        backends.build(tmp_path / "backends", wheel, tmp_path / "nowhere")
