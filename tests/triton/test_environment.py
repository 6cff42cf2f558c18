"""The environment of the embedded Triton."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from bridge.triton import environment
from bridge.triton.wheel import EmbeddedUnavailable

EXECUTABLE = Path("/venv/bin/python")
LIBRARIES = Path("/state/lib")


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ({}, {"PATH": "/venv/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": "/state/lib", "MALLOC_ARENA_MAX": "2"}),
        ({"PATH": "/other/bin"}, {"PATH": "/venv/bin:/usr/bin:/bin"}),
        ({"LD_LIBRARY_PATH": "/nvidia/lib64:"}, {"LD_LIBRARY_PATH": "/state/lib:/nvidia/lib64"}),
        ({"MALLOC_ARENA_MAX": "1"}, {"MALLOC_ARENA_MAX": "1"}),
        ({"TF_CPP_MIN_LOG_LEVEL": "0"}, {"TF_CPP_MIN_LOG_LEVEL": "0"}),
        ({"TF_NUM_INTEROP_THREADS": "2", "HOME": "/var/b"}, {"TF_NUM_INTEROP_THREADS": "2", "HOME": "/var/b"}),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ({}, {"CUDA_VISIBLE_DEVICES": None}),
        ({"PYTHONPATH": "/x", "VIRTUAL_ENV": "/y"}, {"PYTHONPATH": None, "VIRTUAL_ENV": None}),
        ({"BRIDGE_DATABASE_URL": "secret"}, {"BRIDGE_DATABASE_URL": None}),
        ({"AWS_SECRET_ACCESS_KEY": "secret"}, {"AWS_SECRET_ACCESS_KEY": None}),
    ],
)
def test_what_the_child_sees(inherited: dict[str, str], expected: dict[str, str | None]) -> None:
    built = environment.build(EXECUTABLE, LIBRARIES, inherited, gpu=True)
    assert {name: built.get(name) for name in expected} == expected


def test_without_gpu_none_is_visible() -> None:
    built = environment.build(EXECUTABLE, LIBRARIES, {"CUDA_VISIBLE_DEVICES": "1"}, gpu=False)
    assert built["CUDA_VISIBLE_DEVICES"] == ""


def test_libpython_is_the_only_library_of_its_directory(tmp_path: Path) -> None:
    directory = tmp_path / "lib"
    directory.mkdir()
    (directory / "libpython3.9.so.1.0").symlink_to("/nonexistent")
    environment.link_libpython(directory)
    links = list(directory.iterdir())
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        assert [link.name for link in links] == [sysconfig.get_config_var("INSTSONAME")]
    assert all(link.is_symlink() and link.exists() for link in links)


@pytest.mark.parametrize("path", ["/srv/state", "/var/a-b_c.d+e@f,g=h~i%j"])
def test_plain_paths_pass(path: str) -> None:
    environment.check_path(Path(path), "name another")


@pytest.mark.parametrize("path", ["/srv/my state", "/srv/$(touch x)", "/srv/ä", "/srv/a;b", "/srv/a:b", "/srv/a\nb"])
def test_paths_that_a_shell_would_take_apart_are_refused(path: str) -> None:
    with pytest.raises(EmbeddedUnavailable, match=r"only ASCII letters.*; name another\."):
        environment.check_path(Path(path), "name another")


def stub(directory: Path, script: str) -> Path:
    path = directory / "stub"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_stub_that_loads_passes_the_preflight(tmp_path: Path) -> None:
    loaded = stub(tmp_path, 'echo "Expected 9 arguments, found 1 arguments."; exit 1')
    environment.preflight(loaded, dict(os.environ), tmp_path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'libpython3.11.so.1.0: cannot open shared object file' >&2; exit 127", r"exit code 127: libpython3\.11"),
        ("kill -SEGV $$", "exit code -11"),
        ("exit 0", "exit code 0"),
    ],
)
def test_a_stub_that_does_not_load_is_refused_with_the_loaders_words(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(EmbeddedUnavailable, match=f"{words}.*install the shared library of this Python"):
        environment.preflight(stub(tmp_path, script), dict(os.environ), tmp_path)


def test_a_stub_that_hangs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PREFLIGHT_SECONDS", 0.2)
    with pytest.raises(EmbeddedUnavailable, match=r"cannot be started: .*timed out"):
        environment.preflight(stub(tmp_path, "exec sleep 60"), dict(os.environ), tmp_path)


def test_a_missing_stub_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedUnavailable, match="cannot be started"):
        environment.preflight(tmp_path / "absent", dict(os.environ), tmp_path)
