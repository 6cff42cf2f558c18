"""JSON text in the layout of rapidjson's pretty writer, which TF Serving's REST API and its error texts show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bridge.codec.numbers import float_text, shortest_text

INDENT = "    "
DUMP_BYTES = 256
"""Past this size TF Serving cuts the JSON value that an error text shows."""

_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """A JSON string token. Only quotes, backslashes and control characters are escaped."""
    return f'"{_SPECIAL.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _ESCAPES.get(char) or f"\\u{ord(char):04X}"


def dump(value: Any) -> str:
    """A parsed JSON value for an error text: arrays on one line, cut after the token that reaches DUMP_BYTES bytes."""
    if type(value) is float:
        return float_text(value)
    size, parts = 0, []
    for part in _tokens(value, 0):
        parts.append(part)
        size += len(part.encode())
        if size >= DUMP_BYTES:
            break
    return "".join(parts)


def _tokens(value: Any, level: int) -> Iterator[str]:
    """The text of `value`, token by token, within `level` open containers."""
    if isinstance(value, dict):
        yield from _object_tokens(value, level)
    elif isinstance(value, list):
        yield "["
        for index, item in enumerate(value):
            if index:
                yield ", "
            yield from _tokens(item, level + 1)
        yield "]"
    else:
        yield _scalar(value)


def _object_tokens(value: dict[str, Any], level: int) -> Iterator[str]:
    yield "{"
    for index, (key, item) in enumerate(value.items()):
        yield f"{',' if index else ''}\n{INDENT * (level + 1)}{quote(key)}"
        yield ": "
        yield from _tokens(item, level + 1)
    yield f"\n{INDENT * level}}}" if value else "}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    return shortest_text(value) if isinstance(value, float) else str(value)
