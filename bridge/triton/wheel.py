"""The tritonserver that the nvidia-pytriton wheel carries, and whether this interpreter can run it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from bridge.errors import FailedPrecondition

MACHINES = ("x86_64", "aarch64")
PYTHONS = ((3, 11), (3, 12))
GLIBC = (2, 35)
INSTALL = "pip install 'triton-bridge[embedded]'"
REMOTE = "name a running Triton with --triton_url"


class EmbeddedUnavailable(FailedPrecondition):
    """The embedded Triton cannot run here; the message is one sentence that names the cure."""


@dataclass(frozen=True, slots=True)
class Host:
    """What decides whether the embedded Triton can run. `numpy` and the packages are None where not installed."""

    system: str
    machine: str
    glibc: str
    python: tuple[int, int]
    executable: Path
    numpy: str | None
    pytriton: Path | None
    tensorflow: Path | None

    @classmethod
    def current(cls) -> Host:
        """This interpreter; imports none of the packages."""
        library, version = platform.libc_ver()
        return cls(
            system=platform.system(),
            machine=platform.machine(),
            glibc=version if library == "glibc" else "",
            python=sys.version_info[:2],
            executable=Path(sys.executable),
            numpy=_distribution_version("numpy"),
            pytriton=_package_directory("pytriton"),
            tensorflow=_package_directory("tensorflow"),
        )


@dataclass(frozen=True, slots=True)
class TritonWheel:
    """Files of the wheel that a start needs."""

    tritonserver: Path
    backend_library: Path
    backend_utilities: Path
    stub: Path


def locate(host: Host) -> TritonWheel:
    """The wheel's files for `host`'s Python. Raises EmbeddedUnavailable with the cure."""
    _check_platform(host)
    _check_python(host)
    _check_numpy(host)
    if host.pytriton is None:
        raise EmbeddedUnavailable(f"The embedded Triton is not installed; install it with {INSTALL}, or {REMOTE}.")
    if host.tensorflow is None:
        raise EmbeddedUnavailable(
            f"The embedded Triton runs SavedModels on TensorFlow, which is not installed; install it with {INSTALL}."
        )
    return _files(host.pytriton / "tritonserver", host.python)


def _check_platform(host: Host) -> None:
    if host.system != "Linux" or host.machine not in MACHINES:
        raise EmbeddedUnavailable(
            f"The embedded Triton needs Linux on {' or '.join(MACHINES)} and this is {host.system} on {host.machine}; "
            f"{REMOTE}."
        )
    if not host.glibc or _numbers(host.glibc) < GLIBC:
        found = f"glibc {host.glibc}" if host.glibc else "another C library"
        raise EmbeddedUnavailable(
            f"The embedded Triton needs glibc {_dotted(GLIBC)} or newer and this system has {found}; {REMOTE}."
        )


def _check_python(host: Host) -> None:
    if host.python not in PYTHONS:
        raise EmbeddedUnavailable(
            f"The embedded Triton needs Python {' or '.join(map(_dotted, PYTHONS))} and this is Python "
            f"{_dotted(host.python)}; make an environment of such a Python and run {INSTALL} there, or {REMOTE}."
        )
    # Triton's stub takes the first python3 on PATH as its interpreter.
    sibling = host.executable.with_name("python3")
    if not sibling.exists() or not os.path.samefile(sibling, host.executable):
        raise EmbeddedUnavailable(
            f"The embedded Triton looks for its interpreter as '{sibling}', which is not '{host.executable}'; "
            f"make a virtual environment and run {INSTALL} there."
        )


def _check_numpy(host: Host) -> None:
    if host.numpy is None:
        raise EmbeddedUnavailable(f"The embedded Triton needs numpy, which is not installed; run {INSTALL}.")
    if _numbers(host.numpy) >= (2, 0):
        raise EmbeddedUnavailable(
            f"The embedded Triton loses outputs under numpy 2 and numpy {host.numpy} is installed; run {INSTALL}, "
            "which brings numpy 1.26."
        )


def _files(root: Path, python: tuple[int, int]) -> TritonWheel:
    wheel = TritonWheel(
        tritonserver=root / "bin" / "tritonserver",
        backend_library=root / "backends" / "python" / "libtriton_python.so",
        backend_utilities=root / "backends" / "python" / "triton_python_backend_utils.py",
        stub=root / "python_backend_stubs" / _dotted(python) / "triton_python_backend_stub",
    )
    for path in (wheel.tritonserver, wheel.backend_library, wheel.backend_utilities, wheel.stub):
        if not path.is_file():
            raise EmbeddedUnavailable(f"The installed nvidia-pytriton has no '{path}'; reinstall it with {INSTALL}.")
    return wheel


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor number, whatever follows them."""
    found = re.match(r"(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _distribution_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package_directory(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None
