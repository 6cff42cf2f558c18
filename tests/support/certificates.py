"""An authority of the tests' own, and SSLConfig files made with it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509

HOST = "localhost"


class Identity(NamedTuple):
    """A certificate with its key and the authority that signed it, all as PEM."""

    key: bytes
    chain: bytes
    authority: bytes


class Authority:
    """Signs certificates for `localhost` and for clients."""

    def __init__(self) -> None:
        self._authority = trustme.CA()

    @property
    def pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    def issue(self, name: str = HOST, *, days: float = 1, common_name: str | None = None) -> Identity:
        """A certificate that ends in `days` days, ago where that is negative."""
        now = datetime.datetime.now(datetime.UTC)
        leaf = self._authority.issue_cert(
            name,
            "127.0.0.1",
            common_name=common_name,
            not_before=now - datetime.timedelta(days=30),
            not_after=now + datetime.timedelta(days=days),
        )
        chain = b"".join(certificate.bytes() for certificate in leaf.cert_chain_pems)
        return Identity(leaf.private_key_pem.bytes(), chain, self.pem)


def subject(identity: Identity) -> str:
    """The subject in the form of RFC 4514."""
    return x509.load_pem_x509_certificate(identity.chain).subject.rfc4514_string()


def ssl_config(path: Path, *, key: bytes = b"", chain: bytes = b"", roots: bytes = b"", verify: bool = False) -> Path:
    """Write an SSLConfig file; what is empty is left out."""
    fields = {"server_key": key, "server_cert": chain, "custom_ca": roots}
    lines = [f"{name}: {_quoted(value)}" for name, value in fields.items() if value]
    path.write_text("\n".join([*lines, *(["client_verify: true"] if verify else [])]) + "\n")
    return path


def _quoted(pem: bytes) -> str:
    """A text-format string, one literal per line as people write them."""
    return "\n".join(json.dumps(line + "\n") for line in pem.decode().splitlines())
