"""Rollbacks, pins and provenance over the admin API, on a real registry."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.registry.records import ModelSpec, Owner
from bridge.registry.rollback_records import ModelRollback, PinnedContent, Provenance
from model_repo_sync.policy import Latest
from tests.console.admin_server import TEST, AdminServer

V1 = "/api/v1"
POLICY = Latest().to_json()


@pytest.fixture
def held(server: AdminServer) -> AdminServer:
    """The model `half` serves 3 and is held at 2."""
    server.add_model("half", 3)
    spec = ModelSpec("half", "/models/half", policy=POLICY)
    contents = (PinnedContent(2, "f2", "/models/half/2"),)
    wanted = ModelRollback(spec, Owner.CONFIG, contents, spec.wanted(), "#1", None, {"versions": [2]})
    server.registry.roll_back_model(wanted, TEST)
    return server


def test_a_pin_is_shown_and_lifted(held: AdminServer) -> None:
    assert held.ask("GET", f"{V1}/models").json["models"][0]["pinned"] == [2]
    assert held.ask("DELETE", f"{V1}/pin", {"model": "half"}).json == {"changed": True}
    assert held.ask("GET", f"{V1}/models").json["models"][0]["pinned"] is None
    assert held.ask("DELETE", f"{V1}/pin", {"model": "half"}).json == {"changed": False}


def test_provenance(server: AdminServer) -> None:
    seen = Provenance("half", 2, "i", "f", "/models/half/2", 7, {"uuid": "u"}, ("serving_default",), ())
    server.registry.record_provenance(seen, TEST)
    [item] = server.ask("GET", f"{V1}/provenance", {"model": "half", "version": 2}).json["provenance"]
    assert item.pop("first_seen_at") == item.pop("last_seen_at")
    assert item == {
        "model": "half",
        "version": 2,
        "fingerprint": "f",
        "path": "/models/half/2",
        "size": 7,
        "signatures": ["serving_default"],
        "tensorflow": {"uuid": "u"},
        "found": None,
    }
    assert server.ask("GET", f"{V1}/provenance", {"model": "half", "version": 3}).json == {"provenance": []}


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "sentence"),
    [
        ("GET", "rollback", {}, 400, "the query parameter subject is missing"),
        ("POST", "rollback", {"subject": "half"}, 400, "so a server has to run"),
        ("DELETE", "pin", {}, 400, "the query parameter model is missing"),
        ("DELETE", "pin", {"model": "no"}, 404, "Model 'no' is not known."),
        ("GET", "provenance", {}, 400, "the query parameter model is missing"),
        ("GET", "provenance", {"model": "half", "version": "x"}, 400, "version=x is not a number"),
    ],
)
def test_bad_requests(
    server: AdminServer, method: str, path: str, query: dict[str, Any], status: int, sentence: str
) -> None:
    answer = server.ask(method, f"{V1}/{path}", query)
    assert answer.status == status
    assert sentence in answer.json["error"]
