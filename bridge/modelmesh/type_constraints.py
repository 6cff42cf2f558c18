"""ModelMesh's MM_TYPE_CONSTRAINTS: which instances may hold models of which type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bridge.errors import InvalidArgument
from bridge.placement import constraints
from bridge.placement.constraints import TypeConstraints

VARIABLE = "MM_TYPE_CONSTRAINTS"


def from_environment(environment: Mapping[str, str]) -> TypeConstraints:
    """The constraints in MM_TYPE_CONSTRAINTS, or in the file MM_TYPE_CONSTRAINTS_PATH; none without either.

    Raises InvalidArgument, also where both are given.
    """
    text, path = environment.get(VARIABLE, ""), environment.get(f"{VARIABLE}_PATH", "")
    if text and path:
        raise InvalidArgument(f"{VARIABLE} and {VARIABLE}_PATH are both given")
    if path:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{VARIABLE}_PATH={path} cannot be read: {error}") from error
    try:
        return constraints.parse(json.loads(text)) if text else TypeConstraints()
    except ValueError as error:
        raise InvalidArgument(f"{path or VARIABLE} is not JSON: {error}") from error
    except InvalidArgument as error:
        raise InvalidArgument(f"{path or VARIABLE}: {error.message}") from error
