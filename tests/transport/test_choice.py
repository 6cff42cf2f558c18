from __future__ import annotations

from typing import Any

import grpc
import pytest

from bridge.errors import InvalidArgument
from bridge.tfserving import ssl_config
from bridge.transport import native
from bridge.transport.choice import AUTO, GRPCIO, NATIVE, opener
from bridge.transport.grpcio_server import GrpcioServer
from bridge.transport.native_server import NativeServer
from tests.support import certificates
from tests.support.certificates import Authority
from tests.transport.served import SERVERS, served, unary

needs_native = pytest.mark.skipif(native.MODULE is None, reason=native.PROBLEM)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def tls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> ssl_config.ServerTls:
    identity = authority.issue()
    path = tmp_path_factory.mktemp("tls") / "ssl.config"
    fields = {"key": identity.key, "chain": identity.chain, "roots": authority.pem}
    return ssl_config.read(str(certificates.ssl_config(path, **fields, verify=True)))


@needs_native
@pytest.mark.parametrize(
    ("kind", "options", "server"),
    [
        (AUTO, {}, NativeServer),
        (AUTO, {"arguments": {"grpc.max_receive_message_length": 5}}, NativeServer),
        (AUTO, {"arguments": {"grpc.keepalive_time_ms": 5}}, GrpcioServer),
        (AUTO, {"arguments": {"grpc.default_compression_algorithm": 7}}, GrpcioServer),
        (AUTO, {"tls": True}, GrpcioServer),
        (NATIVE, {"tls": True}, NativeServer),
        (GRPCIO, {}, GrpcioServer),
    ],
)
async def test_who_serves(kind: str, options: dict[str, Any], server: type, tls: ssl_config.ServerTls) -> None:
    if options.get("tls"):
        options = {**options, "tls": tls}
    assert isinstance(opener(kind, **options)({}), server)


@needs_native
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"alts": True}, "ALTS is grpcio's alone"),
        ({"arguments": {"grpc.keepalive_time_ms": 5}}, "it does not know the channel argument grpc.keepalive_time_ms"),
        (
            {"arguments": {"grpc.max_send_message_length": "many"}},
            "it does not know the value many of the channel argument grpc.max_send_message_length",
        ),
    ],
)
def test_what_the_native_server_cannot_do(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^--grpc_server=native cannot be used: {reason}"):
        opener(NATIVE, **options)


async def test_without_its_compiled_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MODULE", None)
    monkeypatch.setattr(native, "PROBLEM", "its compiled part was not built")
    assert isinstance(opener(AUTO)({}), GrpcioServer)
    with pytest.raises(InvalidArgument, match="its compiled part was not built"):
        opener(NATIVE)


@pytest.mark.parametrize("kind", SERVERS)
def test_mutual_tls(kind: str, authority: Authority, tls: ssl_config.ServerTls) -> None:
    own = authority.issue("client", common_name="somebody")
    mine = grpc.ssl_channel_credentials(authority.pem, own.key, own.chain)
    anonymous = grpc.ssl_channel_credentials(authority.pem)
    with served(kind, tls=tls) as server:
        address = f"localhost:{server.port}"
        with grpc.secure_channel(address, mine) as channel:
            assert len(unary(channel, "Echo")(bytes(3_000_000))) == 3_000_000
        caller = server.rpcs.callers[-1]
        assert caller.certificate.strip() == own.chain.split(b"-----END CERTIFICATE-----")[0] + (
            b"-----END CERTIFICATE-----"
        )
        for stranger in (grpc.secure_channel(address, anonymous), grpc.insecure_channel(address)):
            with stranger, pytest.raises(grpc.RpcError) as caught:
                unary(stranger, "Echo")(b"", timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@needs_native
def test_a_clear_port_knows_no_certificate() -> None:
    with served(NATIVE) as server, grpc.insecure_channel(server.address) as channel:
        unary(channel, "Echo")(b"")
        assert server.rpcs.callers[-1].certificate == b""
