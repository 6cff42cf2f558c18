"""The JSON body of a REST request, read as TF Serving reads it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import rapidjson

from bridge.codec.json_text import dump
from bridge.errors import InvalidArgument

_MAX_DEPTH = 300
"""Lists nested deeper than this are read as empty: no tensor has more than 254 dimensions, so only their being there
can matter, and the parser recurses."""

_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PARSE_ERROR = re.compile(r"Parse error at offset (\d+): (.*)", re.DOTALL)
_TRAILING = "The document root must not be followed by other values."


class RepeatedKeys(dict[str, Any]):
    """An object in which a key is repeated: the first of its values, and all `members` in the order of the text."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.members = members
        for key, value in members:
            self.setdefault(key, value)


class _FirstKeyWins(rapidjson.Decoder):
    """A decoder that keeps the first of equal keys in an object."""

    def start_object(self) -> list[tuple[str, Any]]:
        return []

    def end_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        return RepeatedKeys(pairs) if len(result) < len(pairs) else result


def parse_object(body: bytes) -> dict[str, Any]:
    """The root object of a request body.

    Beyond JSON it takes NaN, Inf and Infinity with signs, a UTF-8 byte order mark, and anything after the root value.
    Integer tokens past 64 bits are floats. Raises InvalidArgument with TF Serving's sentence.
    """
    if not body:
        raise InvalidArgument("JSON Parse error: The document is empty")
    root = _parse(body)
    if not isinstance(root, dict):
        raise InvalidArgument(f"JSON Value: {dump(root)} Is not object")
    return root


def _parse(body: bytes) -> Any:
    if body.startswith(_BOM):
        body = b"   " + body[len(_BOM) :]
    decoder = _FirstKeyWins(number_mode=rapidjson.NM_NAN | rapidjson.NM_NATIVE)
    while True:
        try:
            return decoder(body)
        except RecursionError:
            body = _without_depths(body)
        except UnicodeDecodeError as error:
            raise _parse_error("Invalid encoding in string.", error.start) from None
        except rapidjson.JSONDecodeError as error:
            offset, text = _explained(error)
            if text != _TRAILING:
                raise _parse_error(text, offset) from None
            body = body[:offset]


def _explained(error: Exception) -> tuple[int, str]:
    match = _PARSE_ERROR.fullmatch(str(error))
    return (int(match[1]), match[2]) if match else (0, str(error))


def _parse_error(text: str, offset: int) -> InvalidArgument:
    """TF Serving's form; its rapidjson puts no quotes around the bracket that is missing."""
    unquoted = re.sub(r"'([\]}])'", r"\1", text)
    return InvalidArgument(f"JSON Parse error: {unquoted} at offset: {offset}")


def _without_depths(body: bytes) -> bytes:
    """`body` with blanks for whatever lies inside containers nested deeper than _MAX_DEPTH.

    Only the balance of the brackets there is checked. Offsets stay as they were.
    """
    bare = _STRING.sub(lambda match: b" " * len(match[0]), body)
    text = np.frombuffer(bare, np.uint8)
    steps = np.isin(text, list(b"[{")).astype(np.int8) - np.isin(text, list(b"]}")).astype(np.int8)
    after = np.cumsum(steps, dtype=np.int32)
    deep = (after > _MAX_DEPTH) & (after - steps > _MAX_DEPTH)
    return np.where(deep, np.uint8(ord(" ")), np.frombuffer(body, np.uint8)).tobytes()
