"""Client certificates on real TLS ports: gRPC and HTTP find the same subject, and only in what was verified."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.access import http_gate
from bridge.access.identity import Credentials
from bridge.http_server import HttpServer
from bridge.tfserving.rpc import Caller, Service
from bridge.tfserving.ssl_config import ServerTls
from bridge.transport.grpcio_server import GrpcioServer
from tests.support.certificates import Authority, Identity, subject

METHOD = "test.Service/Who"


class Ports(NamedTuple):
    """Ports that answer what they know of their caller."""

    grpc: int
    http: int
    authority: Authority

    async def ask_grpc(self, client: Identity | None) -> str:
        key, chain = (client.key, client.chain) if client else (None, None)
        credentials = grpc.ssl_channel_credentials(self.authority.pem, key, chain)
        async with grpc.aio.secure_channel(f"localhost:{self.grpc}", credentials) as channel:
            call: Any = channel.unary_unary(f"/{METHOD}")
            return bytes(await call(b"", timeout=10)).decode()

    def ask_http(self, client: Identity | None, directory: Path) -> str:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if client is not None:
            file = directory / "client.pem"
            file.write_bytes(client.key + client.chain)
            context.load_cert_chain(file)
        connection = http.client.HTTPSConnection("localhost", self.http, context=context, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().read().decode()
        finally:
            connection.close()


def shown(credentials: Credentials) -> str:
    return credentials.subject


async def who(request: bytes, caller: Caller) -> bytes:
    return shown(caller.credentials).encode()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    credentials = http_gate.credentials(Request(scope).scope, {})
    await Response(shown(credentials))(scope, receive, send)


@pytest.fixture(params=[True, False], ids=["mutual", "server only"])
async def ports(request: pytest.FixtureRequest) -> AsyncIterator[Ports]:
    authority = Authority()
    server = authority.issue()
    tls = ServerTls(server.key, server.chain, authority.pem, request.param)
    rpcs = GrpcioServer({"test.Service": Service({"Who": who})}, credentials=tls.grpc_credentials())
    pages = HttpServer(app, tls.ssl_context())
    grpc_port, http_port = await rpcs.start("127.0.0.1:0"), await pages.start("127.0.0.1", 0)
    yield Ports(grpc_port, http_port, authority)
    await rpcs.stop(1)
    await pages.stop(1)


async def test_the_subject_of_a_verified_certificate(
    ports: Ports, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mutual = request.node.callspec.params["ports"]
    client = ports.authority.issue("client", common_name="trainer, the 1st")
    expected = subject(client) if mutual else ""
    assert ("CN=trainer\\, the 1st," in expected) == mutual
    assert await ports.ask_grpc(client) == expected
    ask = partial(ports.ask_http, client, tmp_path)
    assert await asyncio.to_thread(ask) == expected
