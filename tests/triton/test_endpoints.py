"""Loopback ports and who listens on them."""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from bridge.triton.endpoints import (
    EPHEMERAL_RANGE,
    Endpoints,
    free_endpoints,
    grpc_server_name,
    http_server_name,
    listening_ports,
)


def test_free_ports_are_distinct_and_below_the_ephemeral_range() -> None:
    lowest = int(EPHEMERAL_RANGE.read_text().split()[0])
    endpoints = free_endpoints()
    ports = {endpoints.grpc_port, endpoints.http_port, endpoints.metrics_port}
    assert len(ports) == 3
    assert all(1024 < port < lowest for port in ports)


def test_addresses() -> None:
    endpoints = Endpoints(1, 2, 3)
    assert (endpoints.grpc, endpoints.http, endpoints.metrics) == ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_listening_ports_are_those_of_the_process(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as listener, socket.socket(family) as bound:
        listener.bind((address, 0))
        listener.listen()
        bound.bind((address, 0))
        ports = listening_ports(os.getpid())
        assert listener.getsockname()[1] in ports
        assert bound.getsockname()[1] not in ports
        assert listener.getsockname()[1] not in listening_ports(os.getppid())
    assert listening_ports(2**22 + 1) == set()


class Answer(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("body", "name"),
    [(b'{"name": "triton"}', "triton"), (b'{"x": 1}', None), (b"[]", None), (b"<html>", None), (b"\xff", None)],
)
def test_a_server_name_is_what_server_metadata_says(
    server: http.server.HTTPServer, monkeypatch: pytest.MonkeyPatch, body: bytes, name: str | None
) -> None:
    monkeypatch.setattr(Answer, "body", body)
    endpoints = Endpoints(server.server_port, server.server_port, server.server_port)
    assert http_server_name(endpoints) == name
    assert grpc_server_name(endpoints, timeout=0.5) is None


def test_nobody_has_no_name() -> None:
    endpoints = free_endpoints()
    assert http_server_name(endpoints) is None
    assert grpc_server_name(endpoints, timeout=0.5) is None
