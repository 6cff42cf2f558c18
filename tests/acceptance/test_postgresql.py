"""The whole server on PostgreSQL, also while the database is away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from bridge.registry.registry import Registry
from tests.acceptance.conftest import Start
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import OfficialClient, export
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def test_requests_go_on_without_the_database_and_history_has_no_gap(
    postgres: PostgresServer, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    export(tmp_path / "numbered", 1)
    url = postgres.create_database()
    server = start(f"--database_url={url}", "--migrate")
    with client.loop(server.grpc, name="numbered") as loop:
        postgres.kill()
        export(tmp_path / "numbered", 2)
        loop.wait_for_version(2)
        server.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
        _says_that_the_registry_is_away(server)
        loop.wait_for_answers(20)
        postgres.start()
        wait_for(lambda: _history(server, 2)[-1:] == ["AVAILABLE"], 30, "what was observed is written")
        wait_for(lambda: _history(server, 1)[-1:] == ["END"], 30, "to its end")
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [1, 2]
    assert _history(server, 1) == ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]
    assert _history(server, 2) == ["START", "LOADING", "AVAILABLE"]
    assert server.terminate() == 0
    _is_sound(url)


def test_a_killed_bridge_finds_its_registry_again(
    postgres: PostgresServer, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    export(tmp_path / "numbered", 1)
    export(tmp_path / "numbered", 2)
    url = postgres.create_database()
    server = start(f"--database_url={url}", "--migrate")
    specific = {"specific": {"versions": [1]}}
    assert server.change("PUT", "/api/v1/policy?model=numbered", specific).json == {"changed": True}
    server.wait_for_states("numbered", {2: "END", 1: "AVAILABLE"})
    server.kill()
    server.start()
    assert client.predict(server.grpc, [1.0], name="numbered")["spec"]["version"] == 1
    assert server.states("numbered") == {1: "AVAILABLE"}
    [model] = server.get_json("/api/v1/models")["models"]
    assert model["policy"] == specific
    assert server.terminate() == 0
    _is_sound(url)


def test_a_database_that_does_not_answer_is_one_sentence(start: Start, tmp_path: Path) -> None:
    export(tmp_path / "numbered", 1)
    server = start("--database_url=postgresql://somebody:secret@127.0.0.1:1/bridge", ready=False)
    assert server.wait() == 1
    [line] = server.log_lines("bridge serve:")
    assert "The database postgresql+psycopg://somebody:***@127.0.0.1:1/bridge does not answer" in line
    assert not server.log_lines("secret")
    assert not server.log_lines("Traceback")


def _says_that_the_registry_is_away(server: BridgeServer) -> None:
    ready = server.request("GET", "/readyz", to=server.admin)
    assert ready.status == 503
    assert "does not answer" in str(ready.json["reasons"])
    assert server.request("GET", "/livez", to=server.admin).status == 200
    models = server.request("GET", "/api/v1/models", to=server.admin)
    assert (models.status, models.json["code"]) == (503, "UNAVAILABLE")


def _history(server: BridgeServer, version: int) -> list[str]:
    answer = server.request("GET", "/api/v1/events?limit=1000&subject=model:numbered", to=server.admin)
    events: list[dict[str, Any]] = answer.json.get("events", [])
    seen = [event["after"] for event in events[::-1] if event["action"] == "version observed"]
    # A version is observed once more when the digest of its files is known.
    return [state for state, _ in groupby(after["state"] for after in seen if after["version"] == version)]


def _is_sound(url: str) -> None:
    registry = Registry.open(url)
    try:
        assert registry.verify_chain() is None
        numbers = [event.seq for event in registry.events(limit=1000)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert registry.events(newest_first=True, limit=1)[0].action == "server stopped"
    finally:
        registry.close()
