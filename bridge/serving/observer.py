"""What the request path tells of the requests that it answers: for metrics and for request logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from bridge.errors import BridgeError, Code


class Entrypoint(StrEnum):
    """The port that a request came by, in TF Serving's spelling."""

    GRPC = "GRPC"
    REST = "REST"


@dataclass(slots=True)
class Answered:
    """One request with its end. `model` is the name that the client gave, which may be unknown or empty.

    `api` is the RPC (`Predict`, ...) or the REST verb (`predict`, ..., empty for all others).
    """

    entrypoint: Entrypoint
    api: str = ""
    model: str = ""
    code: Code = Code.OK
    seconds: float = 0.0


class Exchange(NamedTuple):
    """A successful inference request: the version and signature that answered, and both messages.

    `messages` makes the serialized request and response of the RPC `api`. It is called only for an exchange that is
    logged, so a shell that has no such messages need not make them for the others.
    """

    api: str
    model: str
    version: int
    signature: str
    messages: Callable[[], tuple[bytes, bytes]]


class Observer(Protocol):
    """Told of requests on the event loop. Every call returns at once and never raises."""

    def answered(self, request: Answered) -> None:
        """A request of the kind that TF Serving counts was answered."""

    def ran(self, api: str, model: str, seconds: float) -> None:
        """The session run for the RPC `api` succeeded."""

    def examples(self, model: str, count: int) -> None:
        """An inference request on `count` examples ran."""

    def exchanged(self, exchange: Exchange) -> None:
        """An inference request was answered with OK."""


class Observers:
    """Several observers, or none, as one."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def answered(self, request: Answered) -> None:
        for observer in self._observers:
            observer.answered(request)

    def ran(self, api: str, model: str, seconds: float) -> None:
        for observer in self._observers:
            observer.ran(api, model, seconds)

    def examples(self, model: str, count: int) -> None:
        for observer in self._observers:
            observer.examples(model, count)

    def exchanged(self, exchange: Exchange) -> None:
        for observer in self._observers:
            observer.exchanged(exchange)


class observed:
    """Tells `observer` of the request that the block answers; the block may complete the record as it learns more."""

    __slots__ = ("_observer", "_request", "_started")

    def __init__(self, observer: Observer, entrypoint: Entrypoint, api: str = "", model: str = "") -> None:
        self._observer = observer
        self._request = Answered(entrypoint, api, model)

    def __enter__(self) -> Answered:
        self._started = time.perf_counter()
        return self._request

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        request = self._request
        if error is not None:
            request.code = _code(error)
        request.seconds = time.perf_counter() - self._started
        self._observer.answered(request)


def _code(error: BaseException) -> Code:
    if isinstance(error, BridgeError):
        return error.code
    return Code.CANCELLED if isinstance(error, asyncio.CancelledError) else Code.INTERNAL
