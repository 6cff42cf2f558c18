"""What may be the name of something in the registry."""

from __future__ import annotations

from bridge.errors import InvalidArgument
from bridge.registry import canonical


def check_name(kind: str, name: str) -> str:
    """`name` itself. Raises InvalidArgument if no database could keep it; `kind` is for the sentence."""
    if not name:
        raise InvalidArgument(f"The {kind} is empty.")
    if canonical.clean(name) != name:
        raise InvalidArgument(f"The {kind} '{canonical.cut(name, 200)}' holds a NUL or is not valid Unicode.")
    size = len(name.encode())
    if size > canonical.MAX_NAME_BYTES:
        raise InvalidArgument(
            f"The {kind} '{canonical.cut(name, 60)}…' has {size} bytes; at most {canonical.MAX_NAME_BYTES} are allowed."
        )
    return name
