from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine.errors import StatusError

MESSAGES = "model_repo_sync.runner.tensorflow_engine.messages"


class TritonError(Exception):
    """The stub's class: its codes are attributes."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.text, self.code = text, code


class Request:
    """A request that counts how often it is asked whether it is cancelled."""

    def __init__(self, timeout: int = 0, cancelled: bool = False, outputs: tuple[str, ...] = ()) -> None:
        self._timeout, self._cancelled, self._outputs = timeout, cancelled, outputs
        self.asked = 0

    def timeout(self) -> int:
        return self._timeout

    def is_cancelled(self) -> bool:
        self.asked += 1
        return self._cancelled

    def requested_output_names(self) -> tuple[str, ...]:
        return self._outputs


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stub's module as it is while a model is imported: almost empty."""
    module = ModuleType("triton_python_backend_utils")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, MESSAGES, raising=False)
    yield module
    sys.modules.pop(MESSAGES, None)


@pytest.fixture
def messages(stub: ModuleType) -> Any:
    imported = importlib.import_module(MESSAGES)
    # The stub adds its classes after the import of the model, so this order is the test of trap 9.
    stub.TritonError = TritonError  # type: ignore[attr-defined]
    stub.InferenceResponse = SimpleNamespace  # type: ignore[attr-defined]
    return imported


@pytest.mark.parametrize(
    ("code", "triton"),
    [
        (1, TritonError.CANCELLED),
        (2, TritonError.UNKNOWN),
        (3, TritonError.INVALID_ARG),
        (5, TritonError.NOT_FOUND),
        (6, TritonError.ALREADY_EXISTS),
        (9, TritonError.INVALID_ARG),
        (11, TritonError.INVALID_ARG),
        (12, TritonError.UNSUPPORTED),
        (13, TritonError.INTERNAL),
        (14, TritonError.UNAVAILABLE),
        (15, TritonError.INTERNAL),
    ],
)
def test_tensorflows_code_travels_in_the_text(messages: Any, code: int, triton: int) -> None:
    error = messages.error(StatusError(code, "why")).error
    assert (error.text, error.code) == (f"tf_status={code} why", triton)


@pytest.mark.parametrize("failure", [MemoryError("no room"), KeyboardInterrupt(), SystemExit(3), ValueError("x")])
def test_any_exception_becomes_a_response(messages: Any, failure: BaseException) -> None:
    error = messages.error(failure).error
    assert error.code == TritonError.INTERNAL
    assert error.text == f"The runner failed at this request: {type(failure).__name__}: {failure}"


@pytest.mark.parametrize(
    ("request_", "waited", "text", "asked"),
    [
        (Request(cancelled=True, timeout=1), 0.0, None, 0),
        (Request(cancelled=True), 0.0009, None, 0),
        (Request(), 0.5, None, 1),
        (Request(cancelled=True), 0.5, "The client cancelled the request while it waited", 1),
        (Request(timeout=400_000), 0.5, "Request timeout expired", 0),
        (Request(timeout=600_000), 0.5, None, 1),
    ],
    ids=["fast", "barely", "slow", "cancelled", "too late", "in time"],
)
def test_only_requests_that_waited_are_asked(
    messages: Any, request_: Request, waited: float, text: str | None, asked: int
) -> None:
    response = messages.lapsed(request_, waited)
    assert (response and response.error.text) == text
    assert request_.asked == asked


@pytest.mark.parametrize(
    ("outputs", "expected"), [(("bridge.runner",), True), (("bridge.runner", "y:0"), False), ((), False)]
)
def test_a_description_is_asked_alone(messages: Any, outputs: tuple[str, ...], expected: bool) -> None:
    assert messages.is_description(Request(outputs=outputs)) is expected
