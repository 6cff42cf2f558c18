"""Clients in other languages, built once from tests/clients and the public protos, then kept in .cache/clients.

go_client()                 # the command, or Unavailable: why this machine cannot build it
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
CACHE = ROOT / ".cache" / "clients"

STEP_SECONDS = 400.0
"""What one step may take: on a small machine gRPC itself is compiled for a minute, and jars are fetched."""

GO_MODULE = "bridge.test/client"
GO_PACKAGES = {"tensorflow_serving": "serving", "tensorflow": "tensorflow", "xla": "tsl"}
"""First directory of a .proto -> the Go package of its code."""
JDK = 17


class Unavailable(Exception):
    """This machine lacks what a client needs; the text says what."""


class StepFailed(Exception):
    """A command of a build failed; the text is the end of what it said."""


def go_client() -> list[str]:
    """The command of the Go client. Raises Unavailable without Go or its modules."""
    go = _program("go")
    return [str(_built(HERE / "go", lambda directory: _build_go(go, directory)) / "client")]


def java_client() -> list[str]:
    """The command of the Java client. Raises Unavailable without a JDK, Maven or its artifacts."""
    maven, java, javac = _program("mvn"), _program("java"), _program("javac")
    if _jdk(javac) < JDK:
        raise Unavailable(f"the JDK is older than {JDK}")
    built = _built(HERE / "java", lambda directory: _build_java(maven, javac, directory))
    return [java, "-XX:TieredStopAtLevel=1", "-cp", f"{built}/classes:{built}/lib/*", "Client"]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def _jdk(javac: str) -> int:
    said = subprocess.run([javac, "-version"], capture_output=True, text=True)
    found = re.search(r"javac (\d+)", said.stdout + said.stderr)
    return int(found[1]) if found else 0


def _built(sources: Path, build: Callable[[Path], None]) -> Path:
    """The directory that `build` made of a copy of `sources`, as long as nothing that it depends on has changed."""
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    digest = hashlib.sha256(version("tensorflow-serving-api").encode() + Path(__file__).read_bytes())
    for path in files:
        digest.update(path.read_bytes())
    built = CACHE / f"{sources.name}-{digest.hexdigest()[:16]}"
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as staging:
            directory = Path(staging) / "build"
            shutil.copytree(sources, directory)
            build(directory)
            directory.rename(built)
    return built


def _build_go(go: str, directory: Path) -> None:
    try:
        _step(directory, go, "mod", "download")
    except StepFailed as error:
        raise Unavailable(f"the Go modules of the client cannot be had: {error}") from error
    protos = _public_protos(directory)
    packages = ",".join(f"M{name}={GO_MODULE}/pb/{_go_package(name)};{_go_package(name)}" for name in protos)
    plugins = []
    for plugin, module in (
        ("go", "google.golang.org/protobuf/cmd/protoc-gen-go"),
        ("go-grpc", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"),
    ):
        _step(directory, go, "build", "-o", f"protoc-gen-{plugin}", module)
        plugins += [f"--plugin=protoc-gen-{plugin}={directory}/protoc-gen-{plugin}", f"--{plugin}_out=."]
        plugins += [f"--{plugin}_opt=module={GO_MODULE},{packages}"]
    _step(directory, sys.executable, "-m", "grpc_tools.protoc", "--descriptor_set_in=public.binpb", *plugins, *protos)
    _step(directory, go, "build", "-o", "client", ".")


def _go_package(proto: str) -> str:
    return GO_PACKAGES[proto.partition("/")[0]]


def _build_java(maven: str, javac: str, directory: Path) -> None:
    try:
        _step(directory, maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    except StepFailed as error:
        raise Unavailable(f"the Maven artifacts of the client cannot be had: {error}") from error
    protos = _public_protos(directory)
    [protoc] = directory.glob("lib/protoc-*.exe")
    protoc.chmod(0o755)
    (directory / "generated").mkdir()
    _step(directory, str(protoc), "--descriptor_set_in=public.binpb", "--java_out=generated", *protos)
    sources = ["Client.java", *(str(path) for path in (directory / "generated").rglob("*.java"))]
    _step(directory, javac, "-nowarn", "-cp", "lib/*", "-d", "classes", *sources)


def _public_protos(directory: Path) -> list[str]:
    """Write the public protos to `directory`/public.binpb; the names of those that need code."""
    command = [sys.executable, "-m", "tests.clients.public_protos", str(directory / "public.binpb")]
    names: list[str] = json.loads(_step(ROOT, *command).splitlines()[-1])
    return [name for name in names if not name.startswith("google/protobuf/")]


def _step(directory: Path, *command: str) -> str:
    """Run one command of a build; what it printed."""
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=STEP_SECONDS, env=_environment()
    )
    if done.returncode:
        raise StepFailed(f"{' '.join(command[:3])}: {_end(done.stdout + done.stderr)}")
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "GOTOOLCHAIN": "local"}


def _end(text: str, lines: int = 5) -> str:
    kept: Sequence[str] = [line for line in text.splitlines() if line.strip()]
    return " / ".join(kept[-lines:])
