"""Base64 as the `b64` objects of TF Serving's REST API carry it."""

from __future__ import annotations

import binascii
import re

from bridge.errors import InvalidArgument

_SPACES = re.compile(rb"[ \t\n\v\f\r]+")
_LENIENT = re.compile(rb"([A-Za-z0-9+/]*)([=.]*)")


def decode_base64(text: str) -> bytes:
    """The bytes of standard base64 text, with the leniencies of absl::Base64Unescape.

    White space is skipped, padding may be missing or dots, the unused bits of the last digit may be set. The URL-safe
    alphabet is refused. Raises InvalidArgument.
    """
    data = text.encode()
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        match = _LENIENT.fullmatch(_SPACES.sub(b"", data))
    if match is not None:
        digits, padding = match[1], match[2]
        needed = -len(digits) % 4
        if needed < 3 and len(padding) in (0, needed):
            return binascii.a2b_base64(digits + b"=" * needed)
    raise InvalidArgument("Unable to base64 decode")


def encode_base64(data: bytes) -> str:
    """Standard base64 with padding."""
    return binascii.b2a_base64(data, newline=False).decode()
