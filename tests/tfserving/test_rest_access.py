"""The REST port behind a gate, by curl's view of it: status, challenge, and TF Serving's form of an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.tfserving.rest_access import RestAccess, action
from tests.access.callers import Watched
from tests.tfserving.conftest import half_plus_two, request
from tests.tfserving.server_thread import ServerThread

BODY = json.dumps({"instances": [1.0]})
REALM = 'Bearer realm="triton-bridge"'


@pytest.fixture(scope="module")
def watched() -> Watched:
    return Watched(port="rest")


@pytest.fixture(scope="module")
def server(watched: Watched) -> Iterator[ServerThread]:
    server = ServerThread(cors=True, page=True, access=RestAccess(watched.gate))
    server.publish(half_plus_two())
    yield server
    server.close()


@pytest.mark.parametrize(
    ("method", "target", "token", "status", "challenge"),
    [
        ("POST", "/v1/models/half:predict", "app-token", 200, None),
        ("POST", "/v1/models/half:predict", "", 401, REALM),
        ("POST", "/v1/models/half:predict", "wrong", 401, f'{REALM}, error="invalid_token"'),
        ("POST", "/v1/models/half:predict", "ops-token", 403, f'{REALM}, error="insufficient_scope"'),
        ("GET", "/v1/models/half", "ops-token", 200, None),
        ("GET", "/v1/models/half/metadata", "app-token", 403, f'{REALM}, error="insufficient_scope"'),
        ("GET", "/v1/models/there-is-none", "", 401, REALM),
        ("GET", "/v2/health/live", "", 200, None),
        ("GET", "/v2/health/ready", "", 200, None),
        ("GET", "/v2", "", 401, REALM),
        ("GET", "/v2", "ops-token", 200, None),
        ("POST", "/v2/models/half/infer", "", 401, REALM),
        ("GET", "/monitoring/prometheus/metrics", "", 401, REALM),
        ("GET", "/monitoring/prometheus/metrics", "ops-token", 200, None),
        ("OPTIONS", "/v1/models/half:predict", "", 400, None),
        ("POST", "/v1/models/half:PREDICT", "", 400, None),
        ("GET", "/else", "", 404, None),
    ],
)
def test_requests(server: ServerThread, method: str, target: str, token: str, status: int, challenge: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = request(server, method, target, BODY if method == "POST" else b"", headers)
    assert (reply.status, reply.headers.get("www-authenticate")) == (status, challenge)


def test_a_denial_has_the_form_of_tf_serving_and_is_for_pages_too(server: ServerThread, watched: Watched) -> None:
    before = len(watched.denied)
    reply = request(server, "POST", "/v1/models/half:predict", b"x" * 10_000_000)
    assert reply.json == {"error": "predict needs a bearer token or a client certificate with the scope inference."}
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.headers["access-control-allow-headers"] == "Content-Type, Authorization"
    [denial] = watched.denied[before:]
    assert (denial.port, denial.method, denial.host) == ("rest", "predict", "127.0.0.1")


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("POST", "/v1/models/m/versions/1:classify", "classify"),
        ("GET", "/v1/models/m/labels/l/metadata", "metadata"),
        ("POST", "/v2/models/m/versions/1/infer", "v2/infer"),
        ("POST", "/v2/repository/index", "v2/index"),
        ("POST", "/v2/repository/models/m/load", ""),
        ("GET", "/v1/models/m/versions/99999999999999999999", ""),
        ("HEAD", "/v1/models/m", ""),
        ("GET", "/", ""),
    ],
)
def test_actions(method: str, target: str, expected: Any) -> None:
    assert action(method, target) == expected
