"""The integrity of a real server's history: verified while it serves, archived, after a kill, and restored."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge import moments
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

BRIDGE = str(Path(sys.executable).with_name("bridge"))


def bridge(server: BridgeServer, *arguments: str, code: int = 0) -> str:
    """What a command prints that is run on the server's state directory."""
    command = [BRIDGE, *arguments, f"--state_dir={server.state_dir}"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == code, found.stdout + found.stderr
    return found.stdout


def db(server: BridgeServer, *arguments: str) -> None:
    command = [BRIDGE, "db", f"--state_dir={server.state_dir}", *arguments]
    subprocess.run(command, capture_output=True, timeout=60, check=True)


def test_a_history_over_archive_kill_and_restore(tmp_path: Path) -> None:
    base_path, key, anchor = tmp_path / "numbered", tmp_path / "key", tmp_path / "anchor.json"
    key.write_text("a key of the auditors\n")
    export(base_path, 1)
    flags = ("--model_name=numbered", f"--model_base_path={base_path}", f"--audit_key_file={key}")
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        bridge(server, "export", "anchor", str(anchor))
        bridge(server, "labels", "set", "numbered", "stable", "1")
        export(base_path, 2)

        def serves_two() -> bool:
            models = server.get_json("/api/v1/models")["models"]
            return bool(models[0]["available"] == [2])

        wait_for(serves_two, 30, "version 2 serves alone")
        by_server = json.loads(bridge(server, "verify", "--json", f"--anchor={anchor}"))
        assert (by_server["whole"], by_server["with_key"], by_server["differences"]) == (True, True, [])
        before = moments.describe(json.loads(anchor.read_text())["at"])
        archive = tmp_path / "old.jsonl"
        db(server, "archive", f"--before={before}", f"--to={archive}", f"--audit_key_file={key}")
        bridge(server, "verify", f"--audit_key_file={key}", f"--anchor={anchor}", f"--archive={archive}")
        bridge(server, "verify", f"--audit_key_file={anchor}", code=1)

        server.signal(signal.SIGKILL)
        server.wait()
        bridge(server, "verify", f"--audit_key_file={key}", f"--anchor={anchor}")
        dump = tmp_path / "dump.jsonl"
        db(server, "backup", "--portable", str(dump))
        db(server, "restore", str(dump), f"--audit_key_file={key}")
        server.start()
        assert serves_two()
        found = json.loads(bridge(server, "verify", "--json", f"--anchor={anchor}"))
        assert (found["whole"], found["epoch"]) == (True, 2)
