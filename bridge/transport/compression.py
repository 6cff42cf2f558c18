"""gRPC's compression of messages."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping

from bridge.errors import BridgeError, Code, Internal, Unimplemented

ALGORITHMS: Mapping[int, str] = {1: "deflate", 2: "gzip"}
"""gRPC's numbers of them, as in the channel argument grpc.default_compression_algorithm; 0 is none."""

_WINDOW_BITS = {"deflate": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS | 16}
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "deflate": zlib.compress,
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
}


def decompressed(message: bytes, encoding: str, limit: int) -> bytes:
    """`message`, which a client compressed by `encoding`. A result past `limit` bytes is refused, if that is not -1.

    Raises BridgeError.
    """
    if encoding not in _WINDOW_BITS:
        raise Unimplemented(f"The compression '{encoding}' is not supported.")
    reader = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        data = reader.decompress(message, limit + 1 if limit >= 0 else 0)
    except zlib.error as error:
        raise Internal(f"The message is not compressed by {encoding}: {error}") from error
    if 0 <= limit < len(data):
        raise BridgeError(f"Received message larger than max ({len(data)} vs. {limit})", Code.RESOURCE_EXHAUSTED)
    if not reader.eof:
        raise Internal(f"The message ends within its compression by {encoding}.")
    return data


def compressed(message: bytes, encoding: str) -> bytes | None:
    """`message` by `encoding`, None where that makes it no smaller."""
    data = _COMPRESS[encoding](message)
    return data if len(data) < len(message) else None
