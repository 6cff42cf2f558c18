"""HTTPS of the HTTP ports: requests tell whose certificate the client showed."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bridge.access import certificates


class TlsProtocol(HttpToolsProtocol):
    """Puts the subject of the client's certificate into each request's scope, as ASGI's TLS extension has it."""

    _subject: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        # Only what was verified: a port that does not ask for certificates gets none.
        der = connection.getpeercert(True) if connection is not None else None
        self._subject = certificates.subject_of_der(der) if der else None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope = cast(dict[str, Any], self.scope)
        scope["extensions"] = {"tls": {"client_cert_name": self._subject}}
