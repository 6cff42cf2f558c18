"""JSON answers of the admin port."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from bridge.errors import Code


def json_response(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value, default=dict), status, media_type="application/json")


def error_response(message: str, code: Code, status: int) -> Response:
    """The form of every error: one sentence, and the name of its canonical code."""
    return json_response({"error": message, "code": code.name}, status)
