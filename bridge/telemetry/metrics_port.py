"""A port of its own for the metrics page, with a certificate that the server signs itself where it is HTTPS."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bridge.http_server import HttpServer
from bridge.telemetry.metrics import Metrics
from bridge.tfserving.ssl_config import ServerTls

VALID = datetime.timedelta(days=3650)


def metrics_server(metrics: Metrics, *, https: bool, gate: Callable[[ASGIApp], ASGIApp]) -> HttpServer:
    """Serves GET /metrics behind `gate`."""

    async def page(request: Request) -> Response:
        return Response(await metrics.read(), headers={"Content-Type": metrics.content_type})

    app = gate(Starlette(routes=[Route("/metrics", page)]))
    return HttpServer(app, self_signed().ssl_context() if https else None)


def self_signed() -> ServerTls:
    """A new key with a certificate for this host."""
    # Its library takes 8 MB, which servers without TLS do without.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "triton-bridge")])
    hosts = [x509.DNSName("localhost"), x509.DNSName(socket.gethostname())]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ServerTls(pem, certificate.public_bytes(Encoding.PEM), b"", False)
