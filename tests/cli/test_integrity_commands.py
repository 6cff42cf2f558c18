"""`bridge verify|export|import events|db archive|backup|restore`, beside a running server and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge import moments
from bridge.cli.main import main
from bridge.registry.database import Database
from tests.cli.test_operator_commands import Place, offline, online
from tests.registry.tampering import Superuser

__all__ = ["offline", "online"]

FAR = "2001-01-01"


@pytest.fixture(params=["offline", "online"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def tamper(place: Place) -> None:
    database = Database.connect(place.url)
    database.write(lambda connection: Superuser(connection).edit(2))
    database.close()


def refused(place: Place, *arguments: str, code: int = 1) -> str:
    result: Result = place.run(*arguments, code=code)
    return result.stderr


def test_a_whole_history(place: Place, tmp_path: Path) -> None:
    place.run("export", "anchor", str(tmp_path / "anchor.json"))
    said = place.run("verify", f"--anchor={tmp_path}/anchor.json").stdout.splitlines()
    assert said[0].startswith("The history is whole: ")
    assert any("By the anchor" in line for line in said)
    assert said[-1].startswith("Not found is a history whose newest events after event #")
    found = place.json("verify")
    assert (found["whole"], found["broken"], found["with_key"]) == (True, None, False)


def test_a_broken_history(place: Place) -> None:
    tamper(place)
    assert place.run("verify", code=1).stdout.startswith("BROKEN: Event #2 was changed")
    assert json.loads(place.run("verify", "--json", code=1).stdout)["broken"]["seq"] == 2


def test_what_cannot_be_decided(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "anchor.json"
    other.write_text('{"deployment": "ffffffff", "epoch": 1, "seq": 1, "hash": "f", "at": 1, "mac": null}')
    assert "is of deployment ffffffff" in refused(place, "verify", f"--anchor={other}", code=2)
    other.write_text("{}")
    assert "has no right 'deployment'" in refused(place, "verify", f"--anchor={other}", code=2)
    other.write_text("x")
    assert "is not JSON" in refused(place, "verify", f"--anchor={other}", code=2)
    assert "cannot be read" in refused(place, "verify", "--anchor=/nowhere", code=2)
    assert "cannot be read" in refused(place, "verify", "--audit_key_file=/nowhere", code=2)
    assert "is of deployment" not in refused(place, "verify", "--archive=/nowhere", code=2)


def test_another_key_than_the_servers(online: Place, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    said = online.run("verify", f"--audit_key_file={key}", code=1).stdout
    assert "nobody with a key attests them" in said


def test_an_export(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    place.run("export", "events", str(file))
    assert file.read_text() == place.run("export", "events").stdout
    header, *events, end = map(json.loads, file.read_text().splitlines())
    assert (header["first"], end["last"]) == (1, len(events))
    assert "exists already" in refused(place, "export", "events", str(file))
    assert len(place.run("export", "events", f"--until={FAR}").stdout.splitlines()) == 2
    assert len(place.run("export", "events", f"--from={FAR}T00:00+02:00").stdout.splitlines()) == len(events) + 2
    assert "is not a time" in refused(place, "export", "events", "--from=yesterday")
    assert "is in the future" in refused(place, "export", "events", "--until=2999-01-01")


def test_a_history_goes_to_another_place(place: Place, tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "events.jsonl", f"--state_dir={tmp_path}/elsewhere"
    place.run("export", "events", str(file))
    said = place.run("import", elsewhere, "events", str(file)).stdout
    assert "are imported; epoch 2 begins after them" in said
    assert place.run("verify", elsewhere).stdout.startswith("The history is whole")
    assert "is in use" in refused(place, "import", elsewhere, "events", str(file))


def test_old_events_are_archived(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "old.jsonl"
    archive = ["db", "archive", f"--to={file}"]
    assert place.run(*archive, f"--before={FAR}").stdout == "There is no event before that time to archive.\n"
    before = moments.describe(json.loads(place.run("export", "anchor").stdout)["at"])
    assert place.run(*archive, f"--before={before}", "--reason=old").stdout.startswith("Events #1 to #")
    assert "Events up to #" in place.run("verify").stdout
    assert place.run("verify", f"--archive={file}").stdout.startswith("The history is whole")
    assert "is not a time" in refused(place, *archive, "--before=long ago")
    assert "is in the future" in refused(place, *archive, "--before=2999-01-01")


def test_a_backup_is_restored(offline: Place, tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    assert offline.run("db", "backup", "--portable", str(dump)).stdout == f"{dump}\n"
    assert "Restored up to event #" in offline.run("db", "restore", str(dump)).stdout
    assert "is kept as" in offline.run("db", "restore", "--destroy-history", str(dump)).stdout
    assert "events that the backup has not" in refused(offline, "db", "restore", str(dump))
    assert offline.run("verify").stdout.startswith("The history is whole")


def test_no_restore_under_a_running_server(online: Place, tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    online.run("db", "backup", "--portable", str(dump))
    assert "is in use by process" in refused(online, "db", "restore", str(dump))


def test_without_a_database(tmp_path: Path) -> None:
    for command in (["verify"], ["export", "anchor"], ["db", "archive", f"--before={FAR}", "--to=x"]):
        environment = {"BRIDGE_STATE_DIR": str(tmp_path)}
        result = CliRunner().invoke(main, command, env=environment)
        assert result.exit_code == (2 if command == ["verify"] else 1)
        assert "There is no database" in result.stderr
