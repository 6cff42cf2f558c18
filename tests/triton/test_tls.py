"""TLS to a real tritonserver; its HTTP speaks none, so there a relay ends it, as a proxy before Triton does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from bridge.errors import InvalidArgument
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import CallError, Fault, InferenceLeg, ModelCall, WireTensor
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.http_leg import HttpLeg, parse_address
from bridge.triton.instance import TritonInstance
from bridge.triton.tls import TlsFiles
from tests.support.tritonserver import free_ports
from tests.triton.tritonserver import Tritonserver

pytestmark = pytest.mark.integration

CALL = ModelCall("echo", [WireTensor("in.UINT8", "UINT8", (100_000,), bytes(100_000))], ["out.UINT8"])


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of one authority (ca, server, client) and of another that nobody trusts (other)."""
    directory = tmp_path_factory.mktemp("pki")
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    other.cert_pem.write_to_path(directory / "other.pem")
    for name, issued in (
        ("server", authority.issue_cert("127.0.0.1", "triton.test")),
        ("client", authority.issue_cert("client@triton.test")),
    ):
        issued.private_key_pem.write_to_path(directory / f"{name}.key")
        for blob in issued.cert_chain_pems:
            blob.write_to_path(directory / f"{name}.pem", append=True)
    return directory


def trusting(pki: Path, **files: str) -> TlsFiles:
    return TlsFiles(ca=str(pki / "ca.pem"), **{name: str(pki / file) for name, file in files.items()})


@pytest.fixture(scope="module")
def server(pki: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tritonserver]:
    """It asks every gRPC client for a certificate."""
    server = Tritonserver(
        tmp_path_factory.mktemp("triton") / "tls",
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={pki / 'server.pem'}",
        f"--grpc-server-key={pki / 'server.key'}",
        f"--grpc-root-cert={pki / 'ca.pem'}",
    )
    server.add_echo()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def loaded(server: Tritonserver, pki: Path) -> Tritonserver:
    files = {"ca": str(pki / "ca.pem"), "cert": str(pki / "client.pem"), "key": str(pki / "client.key")}
    instance = TritonInstance.connect(InstanceRoute("one", grpc=server.grpc, http="", tls={**files, "enabled": "true"}))
    await instance.load("echo", 20)
    await instance.close()
    return server


@asynccontextmanager
async def relay(server: Tritonserver, pki: Path) -> AsyncIterator[str]:
    """An address that speaks TLS, asks for a client certificate and passes the bytes on to Triton's HTTP."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.pem"))
    context.load_cert_chain(pki / "server.pem", pki / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        try:
            await asyncio.wait(
                [asyncio.create_task(copy(reader, inner_writer)), asyncio.create_task(copy(inner_reader, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            inner_writer.close()
            writer.close()

    (port,) = free_ports(1)
    async with await asyncio.start_server(handle, "127.0.0.1", port, ssl=context):
        yield f"127.0.0.1:{port}"


async def answers(leg: InferenceLeg) -> None:
    try:
        for _ in range(2):
            (output,) = await leg.infer(CALL, 10)
            assert bytes(output.data) == bytes(100_000)
    finally:
        await leg.close()


async def refused(leg: InferenceLeg) -> CallError:
    try:
        with pytest.raises(CallError) as caught:
            await leg.infer(CALL, 10)
    finally:
        await leg.close()
    assert caught.value.fault is Fault.CONNECTION
    return caught.value


async def test_grpc_with_client_certificate(loaded: Tritonserver, pki: Path) -> None:
    await answers(GrpcLeg(loaded.grpc, trusting(pki, cert="client.pem", key="client.key")))


async def test_grpc_refuses_a_server_it_does_not_trust(loaded: Tritonserver, pki: Path) -> None:
    error = await refused(GrpcLeg(loaded.grpc, TlsFiles(ca=str(pki / "other.pem"))))
    assert not error.sent
    assert "cannot be reached" in error.message
    assert "CERTIFICATE_VERIFY_FAILED" in error.message


async def test_grpc_without_client_certificate(loaded: Tritonserver, pki: Path) -> None:
    await refused(GrpcLeg(loaded.grpc, trusting(pki)))


async def test_plain_grpc_to_a_tls_server(loaded: Tritonserver) -> None:
    await refused(GrpcLeg(loaded.grpc))


async def test_http_with_client_certificate(loaded: Tritonserver, pki: Path) -> None:
    async with relay(loaded, pki) as address:
        tls = trusting(pki, cert="client.pem", key="client.key")
        await answers(HttpLeg(parse_address(address, tls)))


async def test_http_refuses_a_server_it_does_not_trust(loaded: Tritonserver, pki: Path) -> None:
    async with relay(loaded, pki) as address:
        error = await refused(HttpLeg(parse_address(address, TlsFiles(ca=str(pki / "other.pem")))))
    assert not error.sent
    assert "certificate verify failed" in error.message.lower()


async def test_http_checks_the_servers_name(loaded: Tritonserver, pki: Path) -> None:
    async with relay(loaded, pki) as address:
        client = {"cert": "client.pem", "key": "client.key"}
        named = trusting(pki, **client)
        await answers(HttpLeg(parse_address(address, TlsFiles(named.ca, named.cert, named.key, "triton.test"))))
        error = await refused(HttpLeg(parse_address(address, TlsFiles(named.ca, named.cert, named.key, "other.test"))))
    assert "certificate" in error.message


async def test_plain_http_to_a_tls_server(loaded: Tritonserver, pki: Path) -> None:
    async with relay(loaded, pki) as address:
        await refused(HttpLeg(parse_address(address, None)))


@pytest.mark.parametrize(
    ("text", "tls", "encrypted"),
    [
        ("h:1", None, False),
        ("h:1", TlsFiles(), True),
        ("https://h:1", None, True),
        ("https://h:1/", TlsFiles(), True),
        ("http://h:1", TlsFiles(), False),
        ("[::1]:1", None, False),
    ],
)
def test_addresses(text: str, tls: TlsFiles | None, encrypted: bool) -> None:
    address = parse_address(text, tls)
    assert (address.host, address.port, address.tls is not None) == ("::1" if "[" in text else "h", 1, encrypted)


@pytest.mark.parametrize("text", ["", "h", "h:", "h:x", ":1", "h:70000", "ftp://h:1", "http://h:1/path"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidArgument, match="has to be HOST:PORT"):
        parse_address(text, None)


@pytest.mark.parametrize("field", ["ca", "cert", "key"])
def test_missing_files_are_named(field: str, pki: Path) -> None:
    files = {"ca": str(pki / "ca.pem"), "cert": str(pki / "client.pem"), "key": str(pki / "client.key")}
    tls = TlsFiles(**{**files, field: str(pki / "none.pem")})
    for use in (tls.ssl_context, tls.channel_credentials):
        with pytest.raises(InvalidArgument, match=r"TLS file .*/none\.pem cannot be read: No such file"):
            use()


def test_files_without_certificates(pki: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(InvalidArgument, match=r"empty\.pem is not a PEM file"):
        TlsFiles(ca=str(empty)).ssl_context()
    with pytest.raises(InvalidArgument, match=r"are no certificate and key"):
        trusting(pki, cert="client.pem", key="server.key").ssl_context()
