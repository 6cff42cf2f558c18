"""TLS towards one Triton instance, for HTTP and for gRPC."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc

from bridge.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: roots that the server's certificate is checked against (empty: the system's), client certificate, key.

    `server_name` is the name expected in the certificate where it is not the host of the address.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, str]) -> Self | None:
        """The `tls` of an InstanceRoute; None, which means plain text, where the mapping is empty.

        Its key `enabled` says that TLS is wanted although no file is given.
        """
        return cls(**{name: path for name, path in mapping.items() if name != "enabled"}) if mapping else None

    def ssl_context(self) -> ssl.SSLContext:
        """For the HTTP leg. Raises InvalidArgument, with the path, for a file that cannot be used."""
        ca = self._read(self.ca)
        try:
            context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{self.ca} is not a PEM file of certificates: {error}") from None
        if self.cert:
            self._load_certificate(context)
        return context

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For gRPC. Raises InvalidArgument, with the path, for a file that cannot be read."""
        return grpc.ssl_channel_credentials(
            root_certificates=self._read(self.ca),
            private_key=self._read(self.key),
            certificate_chain=self._read(self.cert),
        )

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        self._read(self.cert)
        self._read(self.key)
        try:
            context.load_cert_chain(self.cert, self.key or None)
        except ssl.SSLError as error:
            raise InvalidArgument(f"{self.cert} and {self.key} are no certificate and key: {error}") from None

    @staticmethod
    def _read(path: str) -> bytes | None:
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise InvalidArgument(f"the TLS file {path} cannot be read: {error.strerror}") from None
