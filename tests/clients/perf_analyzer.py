"""NVIDIA's perf_analyzer, which loads TensorFlow Serving by `--service-kind tfserving`.

Current releases (the package perf-analyzer) need a newer C library than many machines have, so a release of 2024 is
taken where none is on PATH: tritonclient's wheels had the program in them. It is fetched once, kept in .cache/clients,
and runs with the CUDA runtime and libb64 that the wheel of nvidia-pytriton brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from tests.clients.builds import CACHE, Unavailable

RELEASE = "2.50.0"
PROGRAM = f"tritonclient-{RELEASE}.data/data/bin/perf_analyzer"
LIBRARIES = {"libcudart.so.12": "libcudart-*.so.12*", "libb64.so.0d": "libb64-*.so.0d"}
"""Name that the program loads -> name in nvidia_pytriton.libs."""
FETCH_SECONDS = 300.0


def command() -> tuple[list[str], dict[str, str]]:
    """The command and its environment. Raises Unavailable where it cannot run."""
    for program, environment in ((shutil.which("perf_analyzer"), dict(os.environ)), _fetched()):
        if program is not None and _runs(program, environment):
            return [program], environment
    raise Unavailable(f"perf_analyzer {RELEASE} does not run on this machine")


def _runs(program: str, environment: dict[str, str]) -> bool:
    return subprocess.run([program, "--version"], env=environment, capture_output=True).returncode == 0


def _fetched() -> tuple[str, dict[str, str]]:
    directory = CACHE / f"perf_analyzer-{RELEASE}"
    if not directory.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as staging:
            _fetch(Path(staging))
            (Path(staging) / "kept").rename(directory)
    return str(directory / "perf_analyzer"), {**os.environ, "LD_LIBRARY_PATH": str(directory)}


def _fetch(staging: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    pip += ["--platform=manylinux1_x86_64", f"--dest={staging}", f"tritonclient=={RELEASE}"]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=FETCH_SECONDS)
    if done.returncode:
        raise Unavailable(f"tritonclient {RELEASE}, which has perf_analyzer in it, cannot be had from PyPI")
    kept = staging / "kept"
    kept.mkdir()
    [wheel] = staging.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (kept / "perf_analyzer").write_bytes(archive.read(PROGRAM))
    (kept / "perf_analyzer").chmod(0o755)
    libraries = Path(str(distribution("nvidia-pytriton").locate_file("nvidia_pytriton.libs")))
    for name, pattern in LIBRARIES.items():
        [library] = libraries.glob(pattern)
        (kept / name).symlink_to(library)
