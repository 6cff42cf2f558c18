"""The history over the admin API: answers, and one sentence for whatever cannot be answered."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge import moments
from bridge.registry.live import Move, ServedVersion
from tests.console.admin_server import TEST, AdminServer


@pytest.fixture
def told(server: AdminServer) -> AdminServer:
    """With a model whose version 2 is live, by itself and as `stable`."""
    server.add_model("half", 1, 2)
    server.add_model("other")
    server.registry.set_label("half", "stable", 1, TEST)
    server.registry.set_label("half", "stable", 2, TEST)
    served = ServedVersion("half", 2, (2, 1))
    server.registry.record_moves([Move("model:half", served), Move("label:half/stable", served)], TEST)
    return server


def time_of(server: AdminServer, action: str) -> str:
    (event, *_) = server.registry.events(action=action)
    return moments.describe(event.at)


def test_events(told: AdminServer) -> None:
    reply = told.ask("GET", "/api/v1/history", {"subject": "half/stable", "actor": "test", "limit": 2})
    assert [event["action"] for event in reply.json["history"]] == ["live moved", "label set"]
    since = time_of(told, "live moved")
    reply = told.ask("GET", "/api/v1/history", {"from": since, "action": "live moved"})
    assert len(reply.json["history"]) == 2
    assert told.ask("GET", "/api/v1/history", {"until": since, "action": "live moved"}).json["history"] == []
    newest, *_ = everything = [event["seq"] for event in told.ask("GET", "/api/v1/history").json["history"]]
    earlier = told.ask("GET", "/api/v1/history", {"before": newest - 1, "limit": 2}).json["history"]
    assert [event["seq"] for event in earlier] == everything[2:4]


def test_the_state_at_a_time(told: AdminServer) -> None:
    query = {"time": time_of(told, "live moved"), "subject": "half"}
    (subject,) = told.ask("GET", "/api/v1/history/at", query).json["state"]["subjects"]
    assert subject["live"]["state"] == {
        "model": "half",
        "version": 2,
        "versions": [2, 1],
        "fingerprint": "f2",
        "path": "/models/half/2",
    }
    assert [fact["state"]["version"] for fact in subject["observed"]] == [2, 1]
    every = told.ask("GET", "/api/v1/history/at", {"time": query["time"]}).json["state"]
    assert [item["subject"] for item in every["subjects"]] == ["label:half/stable", "model:half", "model:other"]
    seq = every["seq"]
    assert told.ask("GET", "/api/v1/history/at", {"time": f"#{seq}"}).json["state"]["seq"] == seq


def test_differences(told: AdminServer) -> None:
    query = {"from": time_of(told, "model added"), "to": time_of(told, "live moved"), "subject": "label:half/stable"}
    (wanted, live) = told.ask("GET", "/api/v1/history/diff", query).json["diff"]["subjects"]
    assert (wanted["aspect"], wanted["changes"], len(wanted["events"])) == (
        "wanted",
        [{"path": "", "before": None, "after": {"version": 2}}],
        2,
    )
    assert live["aspect"] == "live"


def test_live_intervals(told: AdminServer) -> None:
    (interval,) = told.ask("GET", "/api/v1/history/live", {"subject": "half", "version": 1}).json["live"]
    assert (interval["subject"], interval["end"]) == ("model:half", None)
    assert told.ask("GET", "/api/v1/history/live", {"subject": "half", "version": 3}).json["live"] == []


@pytest.mark.parametrize(
    ("resource", "query", "status", "sentence"),
    [
        ("history", {"subject": "nobody"}, 404, "The history knows nothing called 'nobody'."),
        ("history", {"subject": "label:half/none"}, 404, "The history knows no label 'half/none'."),
        ("history", {"from": "tuesday"}, 400, "'tuesday' is not a time"),
        ("history", {"until": "2999-01-01"}, 400, "The time '2999-01-01' is in the future"),
        ("history", {"limit": "0"}, 400, "limit=0 is not between 1 and 1000"),
        ("history/at", {}, 400, "the query parameter time is missing"),
        ("history/at", {"time": "1999-01-01"}, 400, "nothing is known of 1999-01-01T00:00:00Z"),
        ("history/at", {"time": "#x"}, 400, "'#x' is not an event"),
        ("history/at", {"time": "#99999"}, 400, "There is no event #99999."),
        ("history/at", {"time": "#1", "subject": "half"}, 404, "The history knows nothing of model:half before"),
        ("history/diff", {"from": "2000-01-01"}, 400, "the query parameter to is missing"),
        ("history/live", {"subject": "server"}, 400, "server is not what requests name"),
        ("history/live", {"subject": "half", "version": "x"}, 400, "version=x is not a number"),
    ],
    ids=lambda value: str(value) if isinstance(value, str | dict) else None,
)
def test_what_cannot_be_answered(
    told: AdminServer, resource: str, query: Mapping[str, str], status: int, sentence: str
) -> None:
    reply = told.ask("GET", f"/api/v1/{resource}", query)
    assert reply.status == status
    assert sentence in reply.json["error"]


def test_a_name_of_several_is_refused_with_the_candidates(told: AdminServer) -> None:
    told.registry.set_label("other", "stable", 1, TEST)
    reply = told.ask("GET", "/api/v1/history", {"subject": "stable"})
    assert reply.status == 400
    assert reply.json["error"] == ("'stable' may mean label:half/stable, label:other/stable; name one of them in full.")
