"""Who calls, and what that entitles to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote


class Scope(StrEnum):
    """What a call needs. None includes another."""

    INFERENCE = "inference"
    READ = "read"
    MANAGE = "manage"


class Kind(StrEnum):
    """How a caller is known."""

    CERTIFICATE = "certificate"
    TOKEN = "token"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class Identity:
    """`name` is the subject of a verified client certificate, the name of a token, or else the peer's address."""

    name: str
    kind: Kind
    scopes: frozenset[Scope] = frozenset()


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller shows: the value of `authorization`, the subject of the client certificate that TLS verified, and
    the other end of the connection; each is empty where there is none."""

    authorization: str = ""
    subject: str = ""
    peer: str = ""

    def unproven(self) -> Identity:
        """Who calls as far as that is known without a token."""
        if self.subject:
            return Identity(self.subject, Kind.CERTIFICATE)
        return Identity(self.peer or "unknown", Kind.PEER)


_PORT = re.compile(r"(?<=[\]\d]):\d+$")
_FAMILY = re.compile(r"^ipv[46]:")


def host(peer: str) -> str:
    """A peer without its port, which is another one for each connection: `ipv4:10.0.0.1:4242` is `10.0.0.1`."""
    address = unquote(_FAMILY.sub("", peer))
    bare = _PORT.sub("", address) if address.startswith("[") or address.count(":") == 1 else address
    return bare.strip("[]") or "unknown"
