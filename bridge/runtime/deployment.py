"""The deployment id of a sidecar, which has no database to keep it in."""

from __future__ import annotations

import re
import secrets

from bridge.errors import FailedPrecondition
from bridge.state_dir import StateDir

_ID = re.compile(r"[0-9a-f]{8}")


def deployment_id(state: StateDir, given: str = "") -> str:
    """`given`, else what the state directory holds, made at the first call. Raises FailedPrecondition."""
    if given:
        return given
    path = state.path / "deployment"
    try:
        if not path.exists():
            partial = path.with_suffix(".new")
            partial.write_text(secrets.token_hex(4) + "\n")
            partial.replace(path)
        found = path.read_text().strip()
    except OSError as error:
        raise FailedPrecondition(f"The deployment id in '{path}' cannot be kept: {error.strerror}.") from error
    if not _ID.fullmatch(found):
        raise FailedPrecondition(f"'{path}' holds no deployment id of 8 lower-case hex digits.")
    return found
