"""The environment in which tritonserver and its stubs find this interpreter and its packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from bridge.triton.wheel import REMOTE, EmbeddedUnavailable

PASSED = ("HOME", "USER", "TMPDIR", "TZ", "LD_PRELOAD")
PASSED_PREFIXES = ("CUDA_", "NVIDIA_", "TF_", "XLA_", "OMP_", "MKL_", "KMP_", "ONEDNN_")
SAFE_PATH = re.compile(r"[A-Za-z0-9/._+@,=~%-]+")
PREFLIGHT_SECONDS = 20.0
EXPECTED_USAGE = "Expected 9 arguments"
"""What a stub that could be loaded says when it is started without arguments."""


def build(executable: Path, libraries: Path, inherited: Mapping[str, str], *, gpu: bool) -> dict[str, str]:
    """The child's whole environment; `libraries` is the directory that `link_libpython` filled.

    The stub ignores PYTHONPATH, PYTHONHOME and VIRTUAL_ENV: the first `python3` on PATH decides. It takes libpython by
    soname from the loader's path, so ours goes first. Other variables of the bridge, which may hold secrets, stay out.
    """
    environment = {k: v for k, v in inherited.items() if k in PASSED or k.startswith(PASSED_PREFIXES)}
    environment["PATH"] = os.pathsep.join((str(executable.parent), "/usr/bin", "/bin"))
    paths = [str(libraries), *filter(None, inherited.get("LD_LIBRARY_PATH", "").split(os.pathsep))]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    # Under large tensors glibc's arena per thread keeps several times the memory in use.
    environment["MALLOC_ARENA_MAX"] = inherited.get("MALLOC_ARENA_MAX", "2")
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    environment["LC_ALL"] = "C.UTF-8"
    if not gpu:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def check_path(path: Path, cure: str) -> None:
    """Refuse a path that Triton would hand to a shell as more than one word, or its stub could not import from.

    Triton 2.51 starts stubs by `bash -c` without quotes, and their Python takes file names for ASCII whatever the
    locale; either way the load of a model fails or hangs. Raises EmbeddedUnavailable.
    """
    if not SAFE_PATH.fullmatch(str(path)):
        raise EmbeddedUnavailable(
            f"The embedded Triton cannot work in '{path}': only ASCII letters, digits and . _ - + @ , = ~ % may be in "
            f"the path; {cure}."
        )


def link_libpython(directory: Path) -> None:
    """Make `directory` hold one symbolic link, to this interpreter's libpython where there is one.

    A directory of its own, since the interpreter's library directory may hold a C++ runtime that tritonserver must
    not take.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    library = _libpython()
    if library is not None:
        (directory / library.name).symlink_to(library)


def preflight(stub: Path, environment: Mapping[str, str], cwd: Path) -> None:
    """Check that the stub can be loaded: one that cannot would hang Triton's load thread for ever.

    Raises EmbeddedUnavailable with the loader's words.
    """
    try:
        run = subprocess.run(
            [stub], env=dict(environment), cwd=cwd, capture_output=True, text=True, timeout=PREFLIGHT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedUnavailable(f"Triton's Python stub '{stub}' cannot be started: {error}.") from error
    output = (run.stdout + run.stderr).strip()
    if EXPECTED_USAGE not in output:
        raise EmbeddedUnavailable(
            f"Triton's Python stub does not load with Python at '{sys.executable}' (exit code {run.returncode}: "
            f"{output}); install the shared library of this Python, or {REMOTE}."
        )


def _libpython() -> Path | None:
    name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    places = [sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib")]
    candidates = [_mapped(name), *(Path(place) / name for place in places if place)]
    return next((path for path in candidates if path is not None and path.is_file()), None)


def _mapped(name: str) -> Path | None:
    """The libpython that this very process runs on: no other has for sure the patch level of the standard library."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.endswith("/" + name):
                return Path("/" + path)
    return None
