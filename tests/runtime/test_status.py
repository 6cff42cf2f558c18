"""What ModelMesh would refuse to start with, refused before it connects."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.errors import BridgeError, FailedPrecondition
from bridge.runtime.deployment import deployment_id
from bridge.runtime.status import MEBIBYTE, Parameters
from bridge.state_dir import StateDir

PARAMETERS = Parameters(default_size=100_000_000, load_concurrency=2, load_timeout_ms=1000)

CAPACITIES = [
    (100_000_000, 512 * MEBIBYTE),
    (400_000_000, 800_000_000),
    (1_000_000, 10_000_000),
]


@pytest.mark.parametrize(("default_size", "least"), CAPACITIES)
def test_least_capacity(default_size: int, least: int) -> None:
    parameters = replace(PARAMETERS, default_size=default_size)
    parameters.check_capacity(least)
    with pytest.raises(FailedPrecondition, match=f"A capacity of {least - 1} bytes is too small.* at least {least};"):
        parameters.check_capacity(least - 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"default_size": 8191}, "is less than ModelMesh's unit of 8192"),
        ({"load_timeout_ms": 0}, "has to be at least 1"),
        ({"max_concurrency": -1}, "is negative"),
    ],
)
def test_refused_parameters(change: dict[str, int], sentence: str) -> None:
    PARAMETERS.check()
    with pytest.raises(BridgeError, match=sentence):
        replace(PARAMETERS, **change).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--listen=nowhere"], "--listen=nowhere is neither HOST:PORT nor unix:PATH"),
        (["--triton_capacity_bytes=1000"], "A capacity of 1000 bytes is too small"),
        (
            ["--triton_url=a:1", "--triton_url=b:1", "--triton_repository=r"],
            "A sidecar works with one Triton: give --triton_url once, or not at all",
        ),
    ],
)
def test_refused_starts(tmp_path: Path, flags: list[str], sentence: str) -> None:
    bridge = Path(sys.executable).with_name("bridge")
    result = subprocess.run(
        [bridge, "runtime", f"--state_dir={tmp_path}", *flags], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"bridge runtime: {sentence}")


def test_a_deployment_id_stays_with_its_directory(tmp_path: Path) -> None:
    state, other = StateDir(tmp_path / "a"), StateDir(tmp_path / "b")
    for directory in (state, other):
        directory.path.mkdir()
    first = deployment_id(state)
    assert deployment_id(state) == first
    assert deployment_id(other) != first
    assert deployment_id(state, "0123abcd") == "0123abcd"
    (state.path / "deployment").write_text("rubbish")
    with pytest.raises(FailedPrecondition, match="holds no deployment id"):
        deployment_id(state)
