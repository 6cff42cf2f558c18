"""The admin API's `verify`, `export/events` and `export/anchor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.registry.database import Database, sqlite_url
from tests.console.admin_server import AdminServer
from tests.registry.tampering import Superuser


def test_an_anchor_verifies_what_was_before_it(server: AdminServer) -> None:
    anchor = server.ask("GET", "/api/v1/export/anchor").json
    assert anchor["deployment"] == server.registry.deployment_id
    server.add_model("later", 1)
    found = server.ask("GET", "/api/v1/verify", {"anchor": json.dumps(anchor)}).json
    assert (found["whole"], found["anchor"]["seq"], found["unchecked"]) == (True, anchor["seq"], [])


def test_a_broken_history_is_an_answer(server: AdminServer, tmp_path: Path) -> None:
    database = Database.connect(sqlite_url(tmp_path / "bridge.db"))
    database.write(lambda connection: Superuser(connection).edit(1))
    database.close()
    reply = server.ask("GET", "/api/v1/verify")
    assert (reply.status, reply.json["whole"], reply.json["broken"]["seq"]) == (200, False, 1)


def test_events_are_streamed_as_json_lines(server: AdminServer) -> None:
    reply = server.ask("GET", "/api/v1/export/events")
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    header, *events, end = map(json.loads, reply.body.splitlines())
    assert header["deployment"] == server.registry.deployment_id
    assert [event["seq"] for event in events] == list(range(1, end["last"] + 1))


@pytest.mark.parametrize(
    ("path", "query", "status", "sentence"),
    [
        ("verify", {"anchor": "x"}, 400, "The anchor is not JSON; `bridge export anchor` makes one."),
        ("verify", {"anchor": "{}"}, 400, "The anchor has no right 'deployment'; `bridge export anchor` makes one."),
        ("verify", {"key": "x"}, 400, "/api/v1/verify has no query parameter 'key'; it takes anchor"),
        ("export/events", {"from": "yesterday"}, 400, "'yesterday' is not a time"),
        ("export/events", {"until": "2999-01-01"}, 400, "The time '2999-01-01' is in the future"),
        ("export/anchor", {"x": "1"}, 400, "/api/v1/export/anchor has no query parameter 'x'; it takes none"),
    ],
)
def test_refusals(server: AdminServer, path: str, query: dict[str, str], status: int, sentence: str) -> None:
    reply = server.ask("GET", f"/api/v1/{path}", query)
    assert reply.status == status
    assert reply.json["error"].startswith(sentence)


def test_an_anchor_of_another_deployment(server: AdminServer) -> None:
    anchor = server.ask("GET", "/api/v1/export/anchor").json | {"deployment": "ffffffff"}
    reply = server.ask("GET", "/api/v1/verify", {"anchor": json.dumps(anchor)})
    assert (reply.status, reply.json["code"]) == (400, "FAILED_PRECONDITION")
