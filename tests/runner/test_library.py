from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from model_repo_sync.runner.tensorflow_engine import library
from model_repo_sync.runner.tensorflow_engine.errors import PlatformError


def found(origin: Path | None) -> ModuleSpec:
    return ModuleSpec("tensorflow", None, origin=None if origin is None else str(origin))


def test_the_installed_package_is_found_without_an_import() -> None:
    directory = library.find()
    assert (directory / library.CORE).exists()


@pytest.mark.parametrize("spec", [None, found(None)], ids=["not installed", "a folder of that name"])
def test_no_tensorflow_is_one_sentence(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(PlatformError, match="has no tensorflow package: install tensorflow for it"):
        library.find()


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found(tmp_path / "__init__.py"))
    with pytest.raises(PlatformError, match=f"in {tmp_path} has no {library.FRAMEWORK}"):
        library.find()


def test_libraries_that_do_not_load_are_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (library.FRAMEWORK, library.CORE):
        (tmp_path / name).write_bytes(b"no library")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found(tmp_path / "__init__.py"))
    with pytest.raises(PlatformError, match=f"libraries in {tmp_path} cannot be loaded: .*{library.FRAMEWORK}"):
        library.Library.load()


def test_the_operators_log_level_stays() -> None:
    environment = {"TF_CPP_MIN_LOG_LEVEL": "0"}
    library.quiet(environment)
    assert environment == {"TF_CPP_MIN_LOG_LEVEL": "0"}
