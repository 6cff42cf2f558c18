"""The admin API over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.serving.routes import VersionState
from tests.console.admin_server import TEST, AdminServer

ODD = "a model/with?every&kind=of#character, 中文 and\ttabs"

V1 = "/api/v1"


def test_probes_and_metrics(server: AdminServer) -> None:
    assert server.ask("GET", "/livez").json == {"status": "alive"}
    assert server.ask("GET", "/readyz").json == {"status": "ready", "reasons": []}
    page = server.ask("GET", "/metrics")
    assert (page.body, page.headers["content-type"]) == (b"bridge_up 1\n", "text/plain; version=0.0.4; charset=utf-8")
    server.health.trouble.append("model half is loading")
    reply = server.ask("GET", "/readyz")
    assert (reply.status, reply.json) == (503, {"status": "not ready", "reasons": ["model half is loading"]})
    assert server.ask("GET", "/livez").status == 200


def test_an_empty_server_lists_nothing(server: AdminServer) -> None:
    for resource in ("models", "versions", "labels", "instances"):
        assert server.ask("GET", f"{V1}/{resource}").json == {resource: []}


def test_models(server: AdminServer) -> None:
    server.add_model("half", 2, 3)
    server.add_model(ODD)
    server.registry.record_problem(f"model:{ODD}", "/models", "Could not find base path /models", TEST)
    assert server.ask("GET", f"{V1}/models", {"name": "half"}).json == {
        "models": [
            {
                "name": "half",
                "owner": "config",
                "base_path": "/models/half",
                "platform": "tensorflow",
                "policy": {"latest": {"num_versions": 1}},
                "labels": {},
                "available": [3, 2],
                "problems": [],
                "pinned": None,
            }
        ]
    }
    odd, half = server.ask("GET", f"{V1}/models").json["models"]
    assert (odd["name"], odd["problems"], half["name"]) == (ODD, ["Could not find base path /models"], "half")


def test_versions_and_instances(server: AdminServer) -> None:
    server.add_model("half", 2)
    server.registry.record_version(
        "half", 3, int(VersionState.END), 3, "a bad graph", path="/models/half/3", actor=TEST
    )
    server.registry.upsert_instance("one", "localhost:1", "localhost:2", "process 7", actor=TEST)
    server.registry.record_instance_state("one", "up", actor=TEST)
    server.registry.record_copy("tfs.00000000.half.2", "half", 2, "one", int(VersionState.AVAILABLE), actor=TEST)
    versions = server.ask("GET", f"{V1}/versions", {"model": "half"}).json["versions"]
    assert [item.pop("updated_at") > 0 for item in versions] == [True, True]
    common = {"model": "half", "fingerprint": "", "instances": []}
    assert versions == [
        common
        | {"version": 3, "state": "END", "code": "INVALID_ARGUMENT", "message": "a bad graph"}
        | {"path": "/models/half/3"},
        common
        | {"version": 2, "state": "AVAILABLE", "code": "OK", "message": ""}
        | {"path": "/models/half/2", "fingerprint": "f2", "instances": ["one"]},
    ]
    assert server.ask("GET", f"{V1}/versions").json["versions"] == server.ask("GET", f"{V1}/versions").json["versions"]
    assert server.ask("GET", f"{V1}/instances").json == {
        "instances": [
            {"name": "one", "grpc": "localhost:1", "http": "localhost:2", "owner": "process 7", "state": "up"}
            | {"reason": "", "copies": ["tfs.00000000.half.2"]}
        ]
    }


def test_a_policy_is_set_once_and_takes_effect(server: AdminServer) -> None:
    server.add_model(ODD, 1)
    policy = {"specific": {"versions": [1, 2]}}
    for changed in (True, False):
        reply = server.ask("PUT", f"{V1}/policy", {"model": ODD}, policy)
        assert (reply.status, reply.json) == (200, {"changed": changed})
    assert [[(model.name, model.policy) for model in models] for models in server.plane.applied] == [[(ODD, policy)]]


def test_a_label_from_begin_to_end(server: AdminServer) -> None:
    server.add_model("half", 2, 3)
    where = {"model": "half", "label": "stable & new"}
    for version, changed in ((2, True), (2, False), (3, True)):
        assert server.ask("PUT", f"{V1}/label", where, {"version": version}).json == {"changed": changed}
    assert server.ask("GET", f"{V1}/labels", {"model": "half"}).json == {
        "labels": [{"model": "half", "label": "stable & new", "version": 3, "assigned": True}]
    }
    assert server.ask("DELETE", f"{V1}/label", where).json == {"changed": True}
    assert server.ask("DELETE", f"{V1}/label", where).status == 404
    assert server.ask("GET", f"{V1}/labels").json == {"labels": []}
    assert len(server.plane.applied) == 3


def test_a_label_goes_only_to_a_version_that_serves(server: AdminServer) -> None:
    server.add_model("half", 2)
    reply = server.ask("PUT", f"{V1}/label", {"model": "half", "label": "stable"}, {"version": 9})
    sentence = "Request to assign label to version 9 of model half, which is not currently available for inference"
    assert (reply.status, reply.json) == (400, {"error": sentence, "code": "FAILED_PRECONDITION"})
    assert (server.registry.labels("half"), server.plane.applied) == ({}, [])


def test_a_change_tells_who_why_and_by_which_request(server: AdminServer) -> None:
    server.add_model("half", 2)
    where = {"model": "half", "label": "stable"}
    headers = {"x-request-id": "r-17", "x-audit-reason": "größer ist besser".encode().decode("latin-1")}
    reply = server.ask("PUT", f"{V1}/label", where, {"version": 2}, headers)
    assert reply.headers["x-request-id"] == "r-17"
    (event,) = server.ask("GET", f"{V1}/events", {"limit": 1}).json["events"]
    assert event["actor"].startswith("127.0.0.1:")
    assert [event[name] for name in ("source", "reason", "request_id")] == ["admin", "größer ist besser", "r-17"]
    assert (event["subject"], event["action"]) == ("label:half/stable", "label set")


def test_each_answer_names_its_request(server: AdminServer) -> None:
    first, second = (server.ask("GET", f"{V1}/models").headers["x-request-id"] for _ in range(2))
    assert first != second


def test_events_are_filtered(server: AdminServer) -> None:
    for name in ("one", "two", "three"):
        server.add_model(name, 1)

    def sequences(**query: Any) -> list[int]:
        return [event["seq"] for event in server.ask("GET", f"{V1}/events", query).json["events"]]

    everything = sequences()
    assert everything == sorted(everything, reverse=True)
    assert sequences(limit=2) == everything[:2]
    assert sequences(after=everything[2]) == everything[:2]
    assert len(sequences(subject="model:two")) == 2
    assert len(sequences(action="model added")) == 3
    assert sequences(action="nonsense") == []


LABEL = {"model": "half", "label": "stable"}
BODY = '{"version": 2}'


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "status", "code", "sentence"),
    [
        ("GET", "/nothing", {}, None, 404, "NOT_FOUND", "no such resource: /nothing"),
        ("GET", "/livez/", {}, None, 404, "NOT_FOUND", "no such resource: /livez/"),
        ("POST", f"{V1}/models", {}, None, 405, "UNIMPLEMENTED", "POST is not allowed on /api/v1/models"),
        ("GET", f"{V1}/label", LABEL, None, 405, "UNIMPLEMENTED", "GET is not allowed on /api/v1/label"),
        ("GET", f"{V1}/models", {"name": "no"}, None, 404, "NOT_FOUND", "Model 'no' is not known."),
        ("GET", f"{V1}/versions", {"model": "no"}, None, 404, "NOT_FOUND", "Model 'no' is not known."),
        ("GET", f"{V1}/labels", {"model": "no"}, None, 404, "NOT_FOUND", "Model 'no' is not known."),
        (
            *("GET", f"{V1}/models", {"model": "half"}, None, 400, "INVALID_ARGUMENT"),
            "/api/v1/models has no query parameter 'model'; it takes name",
        ),
        (
            *("GET", f"{V1}/instances", {"name": "one"}, None, 400, "INVALID_ARGUMENT"),
            "/api/v1/instances has no query parameter 'name'; it takes none",
        ),
        ("GET", f"{V1}/events", {"limit": "x"}, None, 400, "INVALID_ARGUMENT", "limit=x is not a number"),
        ("GET", f"{V1}/events", {"limit": 1001}, None, 400, "INVALID_ARGUMENT", "limit=1001 is not between 1 and 1000"),
        (
            *("GET", f"{V1}/events", {"after": -1}, None, 400, "INVALID_ARGUMENT"),
            f"after=-1 is not between 0 and {2**63 - 1}",
        ),
        ("PUT", f"{V1}/policy", {}, {}, 400, "INVALID_ARGUMENT", "the query parameter model is missing"),
        ("PUT", f"{V1}/policy", {"model": "half"}, {}, 400, "INVALID_ARGUMENT", "{} is no version policy"),
        ("PUT", f"{V1}/policy", {"model": "half"}, [], 400, "INVALID_ARGUMENT", "the body is not a JSON object"),
        ("PUT", f"{V1}/policy", {"model": "no"}, {"all": {}}, 404, "NOT_FOUND", "Model 'no' is not known."),
        (
            *("PUT", f"{V1}/label", {"model": "half"}, {"version": 2}, 400, "INVALID_ARGUMENT"),
            "the query parameter label is missing",
        ),
        ("PUT", f"{V1}/label", LABEL, {"version": True}, 400, "INVALID_ARGUMENT", f"the body has to be {BODY}"),
        ("PUT", f"{V1}/label", LABEL, {"version": 2.0}, 400, "INVALID_ARGUMENT", f"the body has to be {BODY}"),
        ("PUT", f"{V1}/label", LABEL, {"version": 2, "x": 1}, 400, "INVALID_ARGUMENT", f"the body has to be {BODY}"),
        (
            *("PUT", f"{V1}/label", LABEL, {"version": -1}, 400, "INVALID_ARGUMENT"),
            f"version -1 is not between 0 and {2**63 - 1}",
        ),
        ("PUT", f"{V1}/label", LABEL, b"x" * 1048577, 400, "INVALID_ARGUMENT", "the body is larger than 1048576 bytes"),
        ("DELETE", f"{V1}/label", LABEL, None, 404, "NOT_FOUND", "Model 'half' has no label 'stable'."),
    ],
)
def test_bad_requests(
    server: AdminServer, method: str, path: str, query: dict[str, Any], body: Any, status: int, code: str, sentence: str
) -> None:
    server.add_model("half", 2)
    reply = server.ask(method, path, query, body)
    assert (reply.status, reply.json) == (status, {"error": sentence.replace(BODY, '{"version": N}'), "code": code})
    assert server.plane.applied == []


def test_a_body_that_is_no_json(server: AdminServer) -> None:
    reply = server.ask("PUT", f"{V1}/policy", {"model": "half"}, b'{"all": ')
    assert (reply.status, reply.json["code"]) == (400, "INVALID_ARGUMENT")
    assert reply.json["error"].startswith("the body is not JSON: ")
    assert "\n" not in reply.json["error"]


def test_a_parameter_given_twice(server: AdminServer) -> None:
    reply = server.ask("GET", f"{V1}/models?name=a&name=b")
    assert (reply.status, reply.json["error"]) == (400, "the query parameter name is given twice")


def test_methods_that_a_resource_has(server: AdminServer) -> None:
    allowed = server.ask("POST", f"{V1}/label").headers["allow"]
    assert set(allowed.split(", ")) == {"PUT", "DELETE"}


def test_a_fault_of_the_bridge_is_hidden_but_logged(
    server: AdminServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(server.registry, "instances", fail)
    reply = server.ask("GET", f"{V1}/instances")
    assert (reply.status, reply.json["code"]) == (500, "INTERNAL")
    assert b"secret" not in reply.body
    assert "a secret" in caplog.text
