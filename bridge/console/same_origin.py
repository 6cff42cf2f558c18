"""Keeps pages of other sites from changing anything by way of a browser that may call this port."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from bridge.errors import BridgeError, Code

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OWN = frozenset({"same-origin", "none"})
SESSION = "bridge.session"
"""Where the ASGI scope of a request says that its credentials come from a session of a browser."""


def check(method: str, headers: Mapping[str, str]) -> None:
    """Raises PERMISSION_DENIED for a change that a page of another origin asks for; other ports are other origins.

    Browsers say by `Sec-Fetch-Site`, or where they do not send it by `Origin`, who asks; other clients send neither.
    """
    if method in SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    foreign = site not in OWN if site is not None else origin is not None and not _is_own(origin, headers)
    if foreign:
        raise BridgeError(
            "This request comes from a page of another site, so it changes nothing.", Code.PERMISSION_DENIED
        )


def _is_own(origin: str, headers: Mapping[str, str]) -> bool:
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
