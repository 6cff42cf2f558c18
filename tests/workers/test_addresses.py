"""Addresses that several processes share."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import BridgeError
from bridge.workers.addresses import ReservedGrpc, ReservedPorts, ReservedRest, SharedSocket
from tests.support.tritonserver import free_ports


@pytest.fixture
def ports() -> Iterator[ReservedPorts]:
    ports = ReservedPorts()
    yield ports
    ports.close()


def listener(port: int, *, shared: bool = False) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), reuse_port=shared)


def test_only_who_shares_a_reserved_port_gets_it(ports: ReservedPorts) -> None:
    [port] = free_ports(1)
    assert ports.reserve("0.0.0.0", port) == port
    with listener(port, shared=True), listener(port, shared=True):
        with pytest.raises(OSError, match="in use"):
            listener(port)
        socket.create_connection(("127.0.0.1", port)).close()
    with pytest.raises(OSError, match="in use"):
        listener(port)
    ports.close()
    listener(port).close()


@pytest.mark.parametrize("shared", [False, True])
async def test_a_port_that_serves_already_is_refused(ports: ReservedPorts, shared: bool) -> None:
    [port] = free_ports(1)
    with listener(port, shared=shared):
        with pytest.raises(BridgeError) as grpc:
            await ReservedGrpc(ports).start(f"0.0.0.0:{port}")
        with pytest.raises(BridgeError) as rest:
            await ReservedRest(ports).start("0.0.0.0", port)
    assert grpc.value.message == f"The gRPC address 0.0.0.0:{port} cannot be bound; is it in use?"
    assert rest.value.message == f"The HTTP address 0.0.0.0:{port} cannot be bound: Address already in use."


async def test_where_no_socket_can_be(ports: ReservedPorts, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    for path in (file, tmp_path / "missing" / "socket"):
        with pytest.raises(BridgeError, match=f"The gRPC address unix:{path} cannot be bound"):
            await ReservedGrpc(ports).start(f"unix:{path}")
    assert file.read_text() == "precious"
    assert await ReservedGrpc(ports).start(f"unix:{tmp_path}/socket") == 0


def test_a_socket_leads_to_a_worker_that_serves(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    shared = SharedSocket(str(path))

    def serve(number: int) -> None:
        Path(shared.of(number)).write_text(str(number))
        shared.offer(number)

    serve(1)
    serve(2)
    assert path.read_text() == "1"
    shared.withdraw(2, [1])
    assert path.read_text() == "1"
    shared.withdraw(1, [2])
    assert path.read_text() == "2"
    shared.withdraw(2, [])
    serve(1)
    assert path.read_text() == "1"
    shared.close()
    assert list(tmp_path.iterdir()) == []
