"""Anchors as files."""

from __future__ import annotations

import json
from pathlib import Path

from bridge.cli.admin import JsonObject
from bridge.errors import InvalidArgument


def read_anchor(path: Path) -> JsonObject:
    """The JSON object in the file. Raises InvalidArgument."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidArgument(f"The anchor file '{path}' cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidArgument(f"The anchor file '{path}' is not JSON.") from error
    if not isinstance(value, dict):
        raise InvalidArgument(f"The anchor file '{path}' is not a JSON object.")
    return value
