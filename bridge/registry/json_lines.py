"""Files of one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bridge.errors import InvalidArgument
from bridge.registry import canonical


class Line(NamedTuple):
    """`raw` has the line's end, unless the file lacks it."""

    number: int
    raw: bytes
    value: dict[str, Any]


def read(path: Path) -> Iterator[Line]:
    """Every line of the file. Raises InvalidArgument where it is none, or cannot be read."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                yield Line(number, raw, _value(path, number, raw))
    except OSError as error:
        raise InvalidArgument(f"The file '{path}' cannot be read: {error.strerror}.") from error


def first(path: Path, format: str, version: int, maker: str) -> dict[str, Any]:
    """The first line, which says what follows. Raises InvalidArgument for a file that `maker` did not write."""
    line = next(read(path), None)
    if line is None or line.value.get("format") != format:
        raise InvalidArgument(f"The file '{path}' is none that `{maker}` writes.")
    found = line.value.get("version")
    if found != version:
        raise InvalidArgument(f"The file '{path}' has version {found} of its format; this release reads {version}.")
    return line.value


def _value(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = canonical.loads(line.decode())
    except ValueError as error:
        raise InvalidArgument(f"Line {number} of '{path}' is not JSON.") from error
    if not isinstance(value, dict):
        raise InvalidArgument(f"Line {number} of '{path}' is not a JSON object.")
    return value
