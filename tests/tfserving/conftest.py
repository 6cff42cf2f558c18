from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest

from bridge.serving.routes import Routes
from tests.serving import snapshots
from tests.support.official_client import OfficialClient
from tests.tfserving.server_thread import ServerThread

Answer = dict[str, Any]
Ask = Callable[..., Answer]


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def half_plus_two(epoch: int = 1) -> Routes:
    """Version 123 of half_plus_two, a failed version, and models that are lost, empty or oddly named."""
    odd = "modelname!#$%&'()*+,/:;=?@[]"
    return snapshots.routes(
        snapshots.model("half", [snapshots.servable(version=123)], {"Version_Label": 123, "gone": 7}, ended=[124]),
        snapshots.model("lost", [snapshots.servable("lost", 3, instances=())]),
        snapshots.model("empty", [], ended=[1]),
        snapshots.model(odd, [snapshots.servable(odd, 5)], {odd: 5}),
        epoch=epoch,
    )


@pytest.fixture(scope="session")
def server() -> Iterator[ServerThread]:
    server = ServerThread()
    server.publish(half_plus_two())
    yield server
    server.close()


@pytest.fixture(scope="session")
def client() -> Iterator[OfficialClient]:
    """The official client, in a process of its own."""
    with OfficialClient() as client:
        yield client


@pytest.fixture(scope="session")
def ask(server: ServerThread, client: OfficialClient) -> Ask:
    """What the official client asks `server`: `ask("predict", spec={...}, ...)`."""
    return partial(client.ask, server.address)


def request(
    server: ServerThread, method: str, target: str, body: bytes | str = b"", headers: Mapping[str, str] | None = None
) -> Reply:
    """One HTTP request on a connection of its own; `target` is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    try:
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        lower = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, response.read(), lower)
    finally:
        connection.close()
