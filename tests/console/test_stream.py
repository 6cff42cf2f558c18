"""Events as they happen, over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from bridge.console import stream as events
from bridge.console.stream import Listeners
from bridge.errors import BridgeError
from tests.console.admin_server import AdminServer

STREAM = "/api/v1/stream"


class Message(NamedTuple):
    id: int
    event: str
    data: dict[str, Any]


class Stream:
    """The messages of an open stream."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> Message:
        fields: dict[str, str] = {}
        while True:
            line = self._response.readline().decode()
            assert line, "the stream ended"
            if line.strip():
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
            elif "id" in fields:
                return Message(int(fields["id"]), fields["event"], json.loads(fields["data"]))

    def ended(self) -> bool:
        """Whether it ends, now or after what is left of it."""
        return all(line.strip() in (b"", b"retry: 1000") for line in iter(self._response.readline, b""))


@contextmanager
def stream(server: AdminServer, query: str = "", last: int | None = None) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=15)
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    try:
        connection.request("GET", STREAM + query, headers=headers)
        response = connection.getresponse()
        assert (response.status, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield Stream(response)
    finally:
        connection.close()


def sequences(server: AdminServer) -> list[int]:
    return [event.seq for event in server.registry.events(limit=1000)]


def test_a_new_stream_begins_with_what_happens_from_now_on(server: AdminServer) -> None:
    server.add_model("before", 1)
    with stream(server) as news:
        server.add_model("half")
        message = news.next()
    assert (message.event, message.data["subject"]) == ("change", "model:half")
    assert message.data == server.ask("GET", "/api/v1/history", {"limit": 1}).json["history"][0]
    assert message.id == message.data["seq"]


def test_whoever_connects_again_misses_nothing(server: AdminServer) -> None:
    for number in range(250):
        server.add_model(f"m{number}")
    everything = sequences(server)
    with stream(server, "?after=0") as news:
        seen = [news.next().id for _ in range(100)]
    with stream(server, "?after=0", last=seen[-1]) as news:
        while seen[-1] < everything[-1]:
            seen.append(news.next().id)
    assert seen == everything


def test_streams_end_with_their_port(server: AdminServer) -> None:
    with stream(server) as news:
        server.end_streams()
        assert news.ended()


def test_streams_end_after_a_while(server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LIFE_SECONDS", 0.1)
    with stream(server) as news:
        assert news.ended()


@pytest.mark.parametrize(
    ("query", "headers", "sentence"),
    [
        ("?after=x", {}, "after=x is not a number"),
        ("?since=1", {}, f"{STREAM} has no query parameter 'since'; it takes after"),
        ("", {"Last-Event-ID": "-1"}, f"Last-Event-ID=-1 is not between 0 and {2**63 - 1}"),
    ],
)
def test_bad_questions(server: AdminServer, query: str, headers: dict[str, str], sentence: str) -> None:
    reply = server.ask("GET", STREAM + query, headers=headers)
    assert (reply.status, reply.json) == (400, {"error": sentence, "code": "INVALID_ARGUMENT"})


def test_listeners_have_a_limit() -> None:
    listeners = Listeners(1)
    with listeners.listening(), pytest.raises(BridgeError, match="1 streams are open"):
        listeners.require_room()
    listeners.require_room()
