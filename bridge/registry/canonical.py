"""Text and JSON in the one form that both databases store and that hashes are taken over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_NAME_BYTES = 1024
MAX_CLIENT_TEXT_BYTES = 1024


def clean(text: str) -> str:
    """`text` as any database holds it: NUL and lone surrogates (PostgreSQL refuses both) become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def cut(text: str, limit: int = MAX_CLIENT_TEXT_BYTES) -> str:
    """`clean(text)`, cut at `limit` bytes of UTF-8 without splitting a character."""
    return clean(text).encode()[:limit].decode(errors="ignore")


def dumps(value: Any) -> str:
    """Canonical JSON: sorted keys, no white space, cleaned text."""
    return json.dumps(_cleaned(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def loads(text: str) -> Any:
    return json.loads(text)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
