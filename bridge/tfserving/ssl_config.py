"""TLS of the client ports from an SSLConfig file, whose PEM texts are checked before anything is served with them."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

import grpc

from bridge.tfserving import text_files
from model_repo_sync.protos.tensorflow_serving import ssl_config_pb2


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a TLS port needs: key, certificate chain and client roots as PEM, and whether clients must show theirs."""

    key: bytes
    chain: bytes
    roots: bytes
    verify: bool

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """For gRPC ports."""
        return grpc.ssl_server_credentials(
            [(self.key, self.chain)],
            root_certificates=self.roots or None,
            require_client_auth=self.verify,
        )

    def ssl_context(self, protocol: str = "http/1.1") -> ssl.SSLContext:
        """For ports that speak `protocol`, which is TLS's name of it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols([protocol])
        # The ssl module reads chains from files only; this one is gone before anything is served.
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "chain.pem"
            file.touch(mode=0o600)
            file.write_bytes(self.key.rstrip() + b"\n" + self.chain)
            context.load_cert_chain(file)
        if self.verify:
            context.load_verify_locations(cadata=self.roots.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def read(path: str) -> ServerTls:
    """The TLS settings in `path`.

    Raises BridgeError, one sentence each: the file cannot be read or parsed, key or certificate are missing, are no
    PEM, do not belong together, or have expired.
    """
    # Its library takes 8 MB, which servers without TLS do without.
    from bridge.tfserving import certificates

    config = text_files.read(path, ssl_config_pb2.SSLConfig)
    certificates.check(path, config)
    return ServerTls(
        config.server_key.encode(), config.server_cert.encode(), config.custom_ca.encode(), config.client_verify
    )
