"""Error hierarchy of the bridge and the one table that maps it to gRPC and HTTP codes."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Canonical status codes; the numbers are those of gRPC, absl and TensorFlow's error.Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


HTTP_STATUS: dict[Code, int] = {
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}
"""TF Serving's mapping (http_server.cc): FAILED_PRECONDITION is 400, CANCELLED 499."""


class BridgeError(Exception):
    """An error with a canonical code and one sentence for the caller.

    `code` is what every shell answers; `HTTP_STATUS` gives the HTTP form of it.
    """

    code: Code = Code.INTERNAL

    def __init__(self, message: str, code: Code | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    @property
    def http_status(self) -> int:
        return HTTP_STATUS[self.code]


class InvalidArgument(BridgeError):
    code = Code.INVALID_ARGUMENT


class NotFound(BridgeError):
    code = Code.NOT_FOUND


class AlreadyExists(BridgeError):
    code = Code.ALREADY_EXISTS


class FailedPrecondition(BridgeError):
    code = Code.FAILED_PRECONDITION


class Unavailable(BridgeError):
    """The platform, not the model, is at fault; the caller may retry."""

    code = Code.UNAVAILABLE


class DeadlineExceeded(BridgeError):
    code = Code.DEADLINE_EXCEEDED


class Unimplemented(BridgeError):
    code = Code.UNIMPLEMENTED


class Internal(BridgeError):
    code = Code.INTERNAL
