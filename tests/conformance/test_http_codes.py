"""Which HTTP status each canonical code has."""

from __future__ import annotations

import pytest

from bridge.errors import BridgeError, Code

STATUSES = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_code_has_its_status(code: Code) -> None:
    assert BridgeError("a sentence", code).http_status == STATUSES[code.name]
