"""Runners that outlive their Triton."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.triton import orphans


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Sleeping processes under the names and arguments that stubs, and others, have."""
    lines = {
        "orphan": [str(tmp_path / orphans.STUB), "model.py", "bridge_test1_ab12", "1048576"],
        "engine": ["python3", f"/a/runner/{orphans.ENGINE}", "name", "1", "cpu", "bridge_test1_ab13"],
        "engine of another bridge": ["python3", f"/a/runner/{orphans.ENGINE}", "name", "1", "cpu", "bridge_test2_ab"],
        "of another bridge": [str(tmp_path / orphans.STUB), "model.py", "bridge_test2_ab12", "1048576"],
        "no stub": ["less", "bridge_test1_ab12"],
    }
    program = "import sys; print(flush=True); sys.stdin.read()"
    with ExitStack() as stack:
        started = {}
        for name, words in lines.items():
            command = [words[0], "-I", "-S", "-c", program, *words[1:]]
            started[name] = stack.enter_context(
                subprocess.Popen(
                    command, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )  # fmt: skip
        for process in started.values():
            assert process.stdout is not None
            process.stdout.readline()
        yield started
        for process in started.values():
            process.kill()


def test_only_runners_with_the_prefix_are_killed(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    killed = [processes.pop("orphan"), processes.pop("engine")]
    assert orphans.kill("bridge_test1_") == sorted(process.pid for process in killed)
    assert [process.wait(5) for process in killed] == [-9, -9]
    assert {name: process.poll() for name, process in processes.items()} == dict.fromkeys(processes)
    assert orphans.kill("bridge_test1_") == []


@pytest.mark.parametrize(("pending", "left"), [("0000000000000100", True), ("0000000000000000", False)])
def test_what_is_killed_already_is_left_to_die(
    processes: dict[str, subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pending: str,
    left: bool,
) -> None:
    victim = processes["orphan"]
    seen = tmp_path / str(victim.pid)
    seen.mkdir()
    (seen / "cmdline").write_bytes(Path(f"/proc/{victim.pid}/cmdline").read_bytes())
    (seen / "status").write_text(f"SigPnd:\t{0:016x}\nShdPnd:\t{pending}\n")
    monkeypatch.setattr(orphans, "PROCESSES", tmp_path)
    assert orphans.kill("bridge_test1_") == ([] if left else [victim.pid])
