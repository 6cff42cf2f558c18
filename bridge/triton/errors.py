"""What Triton's failures mean: its texts and codes of either protocol to `CallError`.

Triton has neither OUT_OF_RANGE nor FAILED_PRECONDITION nor DEADLINE_EXCEEDED, so the runner writes TensorFlow's code
before its text (`tf_status=<code> <text>`); everything else is told apart by the sentences of Triton's core, its two
frontends and its Python backend.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import orjson

from bridge.errors import Code
from bridge.triton.calls import CallError, Fault

TF_STATUS = re.compile(r"tf_status=(\d+) ?")
_REQUEST_ID = re.compile(r"^(\[request id: [^\]]*\] ?)+")
_CONNECT = re.compile(
    r"^failed to connect to all addresses; last error: [A-Z_]+: \S+: (Failed to connect to remote host: )?"
)
_TRACEBACK = re.compile(r"\s+At:\s+\S+\(\d+\)")


DEAD_RUNNER = "is not healthy"
"""In what Triton says of each request to a model whose stub died."""


UNKNOWN_REGION = "Unable to find shared memory region"
"""In what Triton says of a request whose tensors lie in memory that it does not map, for one since it was restarted."""


class _Rule(NamedTuple):
    text: str
    code: Code
    fault: Fault


_RULES = (
    _Rule("Request for unknown model", Code.UNAVAILABLE, Fault.NOT_READY),
    _Rule("has no available versions", Code.UNAVAILABLE, Fault.NOT_READY),
    _Rule("is not at ready state", Code.UNAVAILABLE, Fault.NOT_READY),
    _Rule("Server not ready", Code.UNAVAILABLE, Fault.NOT_READY),
    _Rule(UNKNOWN_REGION, Code.UNAVAILABLE, Fault.NOT_READY),
    _Rule("Server is stopping", Code.UNAVAILABLE, Fault.NOT_READY),
    _Rule(DEAD_RUNNER, Code.UNAVAILABLE, Fault.RUNNER),
    _Rule("shared memory pool", Code.UNAVAILABLE, Fault.RUNNER),
    _Rule("shared memory key", Code.UNAVAILABLE, Fault.RUNNER),
    _Rule("Exceeds maximum queue size", Code.UNAVAILABLE, Fault.BUSY),
    _Rule("Request timeout expired", Code.DEADLINE_EXCEEDED, Fault.BUSY),
)
"""A queue timeout is the caller's own deadline, which both legs send along, so it is told as one."""

_UNREACHED = (
    "failed to connect to all addresses",
    "errors resolving",
    "name resolution",
    "DNS resolution",
    "Connection refused",
    "connections to all backends failing",
    "Handshake",
    "handshake",
)
_LOST = (
    "Stream removed",
    "Socket closed",
    "Connection reset",
    "Connection timed out",
    "Broken pipe",
    "GOAWAY",
    "Connection aborted",
    "keepalive",
    "ping timeout",
    "Transport closed",
    "transport is closing",
    "recvmsg",
    "sendmsg",
    "Endpoint closing",
)

_HTTP_CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAVAILABLE,
    403: Code.UNAVAILABLE,
    404: Code.NOT_FOUND,
    409: Code.ALREADY_EXISTS,
    413: Code.RESOURCE_EXHAUSTED,
    429: Code.RESOURCE_EXHAUSTED,
    499: Code.CANCELLED,
    501: Code.UNIMPLEMENTED,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}
"""A refusal of the bridge's own credentials (401, 403) is no verdict on those of the client."""

_NOT_TRITONS = {413: Code.RESOURCE_EXHAUSTED, 429: Code.RESOURCE_EXHAUSTED, 504: Code.DEADLINE_EXCEEDED}
_REFUSALS = (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED)


def from_triton(text: str, code: Code) -> CallError:
    """The error that Triton itself answered with `text` under `code`.

    TensorFlow's text comes out bare and with TensorFlow's code, whatever code Triton chose for it.
    """
    status = TF_STATUS.search(text)
    if status:
        return CallError(bare(text[status.end() :]), canonical(int(status[1])), Fault.MODEL)
    sentence = bare(text)
    for rule in _RULES:
        if rule.text in sentence:
            return CallError(sentence, rule.code, rule.fault)
    return CallError(sentence, code, Fault.BUSY if code is Code.UNAVAILABLE else Fault.MODEL)


def from_http(status: int, body: bytes | bytearray | memoryview, address: str) -> CallError:
    """The error of an HTTP answer other than 200; its body is Triton's `{"error": text}` or a proxy's own words."""
    text = _error_text(body)
    if text is not None:
        return from_triton(text, _HTTP_CODES.get(status, Code.INTERNAL))
    words = bytes(body[:200]).decode("utf-8", "replace").strip()
    sentence = f"{address} answered HTTP {status} where Triton was expected" + (f": {words}" if words else "")
    return CallError(sentence, _NOT_TRITONS.get(status, Code.UNAVAILABLE), Fault.CONNECTION)


def from_grpc(code: Code, text: str, address: str) -> CallError:
    """The error of a failed RPC, which may be Triton's answer or the channel's own finding."""
    if code is Code.DEADLINE_EXCEEDED:
        return CallError(f"Triton at {address} did not answer in time", code, Fault.CONNECTION)
    if code is Code.UNAVAILABLE and any(words in text for words in _UNREACHED):
        return unreachable(address, _CONNECT.sub("", text))
    if code is Code.UNAVAILABLE and any(words in text for words in _LOST):
        return lost(address, text)
    if code in _REFUSALS:
        return CallError(f"Triton at {address} refuses the bridge: {text}", Code.UNAVAILABLE, Fault.CONNECTION)
    return from_triton(text, code)


def unreachable(address: str, reason: str) -> CallError:
    """No connection could be made, so nothing was sent."""
    return CallError(f"Triton at {address} cannot be reached: {reason}", Code.UNAVAILABLE, Fault.CONNECTION, sent=False)


def lost(address: str, reason: str) -> CallError:
    """The connection went away under a request; whether it ran is unknown."""
    return CallError(f"Triton at {address} went away during the request: {reason}", Code.UNAVAILABLE, Fault.CONNECTION)


def bare(text: str) -> str:
    """`text` without the request id that Triton puts before it and the Python traceback that it puts behind it."""
    sentence = _REQUEST_ID.sub("", text)
    traceback = _TRACEBACK.search(sentence)
    return (sentence[: traceback.start()] if traceback else sentence).rstrip()


def canonical(number: int) -> Code:
    """The code of `number`; UNKNOWN where there is none, as gRPC reads such numbers."""
    try:
        return Code(number)
    except ValueError:
        return Code.UNKNOWN


def _error_text(body: bytes | bytearray | memoryview) -> str | None:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    text = document.get("error") if isinstance(document, dict) else None
    return text if isinstance(text, str) else None


def says_dead_runner(text: str) -> bool:
    """Whether Triton said that the process behind a model died. Triton never starts it again by itself."""
    return DEAD_RUNNER in text
