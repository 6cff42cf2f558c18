from __future__ import annotations

import pytest

from bridge.errors import Code
from bridge.triton import errors, loading
from bridge.triton.calls import Fault
from bridge.triton.loading import FailureKind

STUB = "Stub process 'tfs.0123abcd.m.1_0_0' is not healthy."
TRACEBACK = "\n\nAt:\n  /backends/tensorflow_runner/model.py(24): execute\n"


@pytest.mark.parametrize(
    ("text", "code", "expected", "fault"),
    [
        ("Request for unknown model: 'm' is not found", Code.NOT_FOUND, Code.UNAVAILABLE, Fault.NOT_READY),
        ("Request for unknown model: 'm' version 9 is not found", Code.NOT_FOUND, Code.UNAVAILABLE, Fault.NOT_READY),
        (
            "Request for unknown model: 'm' has no available versions",
            Code.NOT_FOUND,
            Code.UNAVAILABLE,
            Fault.NOT_READY,
        ),
        (
            "Request for unknown model: 'm' version 1 is not at ready state",
            Code.UNAVAILABLE,
            Code.UNAVAILABLE,
            Fault.NOT_READY,
        ),
        ("Server not ready", Code.UNAVAILABLE, Code.UNAVAILABLE, Fault.NOT_READY),
        (STUB, Code.INTERNAL, Code.UNAVAILABLE, Fault.RUNNER),
        (
            "Failed to increase the shared memory pool size for key 'bridge_1' to 8 bytes: No space left on device",
            Code.INTERNAL,
            Code.UNAVAILABLE,
            Fault.RUNNER,
        ),
        ("Exceeds maximum queue size", Code.UNAVAILABLE, Code.UNAVAILABLE, Fault.BUSY),
        ("Request timeout expired", Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Fault.BUSY),
        ("the runner's own refusal", Code.UNAVAILABLE, Code.UNAVAILABLE, Fault.BUSY),
        (
            "inference input 'x' data-type is 'INT32', but model 'e' expects 'FP32'",
            Code.INVALID_ARGUMENT,
            Code.INVALID_ARGUMENT,
            Fault.MODEL,
        ),
    ],
)
def test_what_triton_says(text: str, code: Code, expected: Code, fault: Fault) -> None:
    for said in (text, f"[request id: <id_unknown>] {text}"):
        error = errors.from_triton(said, code)
        assert (error.message, error.code, error.fault, error.sent) == (text, expected, fault, True)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("tf_status=3 bad shape", Code.INVALID_ARGUMENT, "bad shape"),
        ("[request id: r] tf_status=9 no table", Code.FAILED_PRECONDITION, "no table"),
        ("tf_status=11 ", Code.OUT_OF_RANGE, ""),
        ("tf_status=5 Exceeds maximum queue size", Code.NOT_FOUND, "Exceeds maximum queue size"),
        ("tf_status=99 odd", Code.UNKNOWN, "odd"),
        ("tf_status=2 two\nlines", Code.UNKNOWN, "two\nlines"),
    ],
)
def test_tensorflows_words_are_final(text: str, code: Code, message: str) -> None:
    error = errors.from_triton(text, Code.INTERNAL)
    assert (error.message, error.code, error.fault) == (message, code, Fault.MODEL)


def test_python_traceback_is_left_out() -> None:
    text = "Failed to process the request(s) for model 'm_0_0', message: ValueError: odd"
    assert errors.from_triton(text + TRACEBACK, Code.INTERNAL).message == text


@pytest.mark.parametrize(
    ("text", "message", "sent"),
    [
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
            "Failed to connect to remote host: Connection refused",
            "Triton at t:1 cannot be reached: Connection refused",
            False,
        ),
        (
            "errors resolving nohost.invalid:1: [field:hostname lookup error]",
            "Triton at t:1 cannot be reached: errors resolving nohost.invalid:1: [field:hostname lookup error]",
            False,
        ),
        ("Stream removed", "Triton at t:1 went away during the request: Stream removed", True),
        ("recvmsg:Broken pipe", "Triton at t:1 went away during the request: recvmsg:Broken pipe", True),
    ],
)
def test_what_a_channel_says(text: str, message: str, sent: bool) -> None:
    error = errors.from_grpc(Code.UNAVAILABLE, text, "t:1")
    assert (error.code, error.fault) == (Code.UNAVAILABLE, Fault.CONNECTION)
    assert (error.message, error.sent) == (message, sent)


@pytest.mark.parametrize("code", [Code.UNAUTHENTICATED, Code.PERMISSION_DENIED])
def test_refused_credentials_are_the_bridges(code: Code) -> None:
    error = errors.from_grpc(code, "no token", "t:1")
    assert (error.code, error.fault) == (Code.UNAVAILABLE, Fault.CONNECTION)
    assert error.message == "Triton at t:1 refuses the bridge: no token"


@pytest.mark.parametrize(
    ("status", "body", "code", "fault", "message"),
    [
        (400, b'{"error":"tf_status=3 no"}', Code.INVALID_ARGUMENT, Fault.MODEL, "no"),
        (500, b'{"error":"tf_status=14 no"}', Code.UNAVAILABLE, Fault.MODEL, "no"),
        (503, b'{"error":"Exceeds maximum queue size"}', Code.UNAVAILABLE, Fault.BUSY, "Exceeds maximum queue size"),
        (501, b'{"error":"no"}', Code.UNIMPLEMENTED, Fault.MODEL, "no"),
        (500, b'{"error":"Unable to parse \'data\'"}', Code.INTERNAL, Fault.MODEL, "Unable to parse 'data'"),
        (
            502,
            b"<html>Bad Gateway</html>",
            Code.UNAVAILABLE,
            Fault.CONNECTION,
            "t:1 answered HTTP 502 where Triton was expected: <html>Bad Gateway</html>",
        ),
        (404, b"no", Code.UNAVAILABLE, Fault.CONNECTION, "t:1 answered HTTP 404 where Triton was expected: no"),
        (413, b"", Code.RESOURCE_EXHAUSTED, Fault.CONNECTION, "t:1 answered HTTP 413 where Triton was expected"),
        (401, b"[]", Code.UNAVAILABLE, Fault.CONNECTION, "t:1 answered HTTP 401 where Triton was expected: []"),
        (504, b"", Code.DEADLINE_EXCEEDED, Fault.CONNECTION, "t:1 answered HTTP 504 where Triton was expected"),
    ],
)
def test_what_http_says(status: int, body: bytes, code: Code, fault: Fault, message: str) -> None:
    error = errors.from_http(status, body, "t:1")
    assert (error.code, error.fault, error.message) == (code, fault, message)


LOAD = "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: "


@pytest.mark.parametrize(
    ("text", "code", "kind", "expected", "message"),
    [
        (
            LOAD + "StatusError: tf_status=5 Could not find SavedModel" + TRACEBACK + ";\n",
            Code.INVALID_ARGUMENT,
            FailureKind.MODEL,
            Code.NOT_FOUND,
            "Could not find SavedModel",
        ),
        (
            "Internal: StatusError: tf_status=3 Op type not registered 'X' At: /b/model.py(23): initialize",
            Code.UNAVAILABLE,
            FailureKind.MODEL,
            Code.INVALID_ARGUMENT,
            "Op type not registered 'X'",
        ),
        (
            LOAD + "StatusError: tf_status=8 OOM when allocating tensor" + TRACEBACK,
            Code.INVALID_ARGUMENT,
            FailureKind.PLATFORM,
            Code.RESOURCE_EXHAUSTED,
            "OOM when allocating tensor",
        ),
        (
            LOAD + "PlatformError: The runner needs numpy below 2" + TRACEBACK + ";",
            Code.INVALID_ARGUMENT,
            FailureKind.PLATFORM,
            Code.INTERNAL,
            "The runner needs numpy below 2",
        ),
        (LOAD + STUB + ";", Code.INVALID_ARGUMENT, FailureKind.PLATFORM, Code.INTERNAL, STUB),
        (
            "failed to load 'm', failed to poll from model repository",
            Code.INTERNAL,
            FailureKind.PLATFORM,
            Code.INTERNAL,
            "failed to load 'm', failed to poll from model repository",
        ),
        ("unloaded", Code.UNAVAILABLE, FailureKind.PLATFORM, Code.UNAVAILABLE, "unloaded"),
    ],
)
def test_whose_fault_a_failed_load_is(text: str, code: Code, kind: FailureKind, expected: Code, message: str) -> None:
    failure = loading.from_text(text, code)
    assert (failure.kind, failure.code, failure.message) == (kind, expected, message)
