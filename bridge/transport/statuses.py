"""gRPC's status messages as they stand in HTTP/2 headers."""

from __future__ import annotations

from urllib.parse import quote

from bridge.tfserving.rpc import status_message

_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def encoded(message: str) -> bytes:
    """`message` as TF Serving cuts it, percent-encoded as gRPC wants it: whatever is no printable ASCII, and `%`.

    Spaces at both ends are encoded, too, since HTTP/2 does not allow them there.
    """
    text = status_message(message)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    return b"%20" * before + quote(inner, safe=_PLAIN).encode() + b"%20" * after
