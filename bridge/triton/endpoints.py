"""Loopback ports for a child server, and the proof that the server behind them is that child."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 10240
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TCP_LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""
SERVER_METADATA = "/inference.GRPCInferenceService/ServerMetadata"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a child listens on the loopback interface."""

    grpc_port: int
    http_port: int
    metrics_port: int

    @property
    def grpc(self) -> str:
        return f"{LOOPBACK}:{self.grpc_port}"

    @property
    def http(self) -> str:
        return f"{LOOPBACK}:{self.http_port}"

    @property
    def metrics(self) -> str:
        return f"{LOOPBACK}:{self.metrics_port}"


def free_endpoints() -> Endpoints:
    """Three distinct ports that nothing listened on a moment ago; somebody may still take one before the child does.

    They lie below the ephemeral range: a port in it can be taken by any outgoing connection, and a client that keeps
    connecting to one where nothing listens may in the end connect to itself.
    """
    with contextlib.ExitStack() as held:
        first, second, third = (held.enter_context(_bound()).getsockname()[1] for _ in range(3))
        return Endpoints(first, second, third)


def listening_ports(pid: int) -> set[int]:
    """The TCP ports on which process `pid` itself listens; empty for a process that is gone."""
    process = Path("/proc") / str(pid)
    try:
        sockets = _sockets(process / "fd")
        rows = [line.split() for table in ("tcp", "tcp6") for line in _rows(process / "net" / table)]
    except OSError:
        return set()
    # Columns of /proc/net/tcp: 1 is the local ADDRESS:PORT in hexadecimal, 3 the state, 9 the inode of the socket.
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == TCP_LISTEN and row[9] in sockets}


def http_server_name(endpoints: Endpoints, timeout: float = 2.0) -> str | None:
    """The name (Triton's --id) that the HTTP port answers with, None while it gives no such answer."""
    connection = http.client.HTTPConnection(LOOPBACK, endpoints.http_port, timeout=timeout)
    try:
        connection.request("GET", "/v2")
        return str(json.load(connection.getresponse())["name"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def grpc_server_name(endpoints: Endpoints, timeout: float = 2.0) -> str | None:
    """The name (Triton's --id) that the gRPC port answers with, None while it gives no such answer."""
    with grpc.insecure_channel(endpoints.grpc, options=[("grpc.enable_http_proxy", 0)]) as channel:
        metadata = channel.unary_unary(
            SERVER_METADATA,
            request_serializer=service_pb2.ServerMetadataRequest.SerializeToString,
            response_deserializer=service_pb2.ServerMetadataResponse.FromString,
        )
        try:
            return str(metadata(service_pb2.ServerMetadataRequest(), timeout=timeout).name)
        except grpc.RpcError:
            return None


def _sockets(descriptors: Path) -> set[str]:
    """Inodes of the sockets among a process's open files."""
    inodes = set()
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(FileNotFoundError):
            kind, _, inode = os.readlink(descriptor).partition(":")
            if kind == "socket":
                inodes.add(inode.strip("[]"))
    return inodes


def _rows(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:] if table.exists() else []


def _bound() -> socket.socket:
    for port in _candidates():
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            listener.close()
            continue
        return listener
    raise OSError("no free loopback port was found")


def _candidates() -> Iterator[int]:
    try:
        highest = int(EPHEMERAL_RANGE.read_text().split()[0]) - 1
    except (OSError, ValueError, IndexError):
        highest = 0
    if highest > LOWEST_PORT:
        yield from (random.randint(LOWEST_PORT, highest) for _ in range(100))
    yield 0
