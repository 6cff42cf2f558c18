"""A SavedModel in the engine process of its device: arrays in, arrays out, over a socket."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import RunnerConfig
from .dtypes import DTYPES, DType
from .engine_process import EngineProcess
from .errors import PlatformError, StatusError
from .feed import Array, Feed
from .frames import Connection, EngineLost, Frame
from .tensor_lists import decode_arrays, encode_feeds

if TYPE_CHECKING:
    from .session import Observer

logger = logging.getLogger(__name__)

PLATFORM = -1
"""The code of an answer that is no verdict of TensorFlow's."""

LOST = "The engine process of this runner is not healthy"
"""Worded as Triton says it of a dead stub, which is what becomes of this runner: so its callers know what to do."""

LOAD_ATTEMPTS = 2
"""The first engine that is called may be about to end for want of work."""

LAST_WORDS_SECONDS = 0.2
"""For which a runner without its engine lives on, so that requests in flight are answered."""


class _Prepared(NamedTuple):
    text: bytes
    dtypes: tuple[DType, ...]


class RemoteModel:
    """`run` may be called by many threads at once: each takes a connection of its own.

    This process ends with its engine, since its model is gone then; whoever starts dead runners again starts this one.
    """

    def __init__(
        self,
        process: EngineProcess,
        control: Connection,
        welcome: dict[str, Any],
        settings: RunnerConfig,
        observe: Observer,
    ) -> None:
        """`welcome` is what the engine answered to the load over `control`."""
        self.tensorflow_version: str = welcome["tensorflow"]
        self.memory_bytes: int = welcome["memory_bytes"]
        self.device_bytes: int = welcome["device_bytes"]
        self._process = process
        self._control = control
        self._model: int = welcome["model"]
        self._outputs = settings.outputs
        self._observe = observe
        self._idle: list[Connection] = []
        self._prepared: dict[tuple[tuple[str, ...], tuple[str, ...]], _Prepared] = {}
        self._closing = False
        threading.Thread(target=self._watch, name="engine", daemon=True).start()

    @classmethod
    def load(cls, settings: RunnerConfig, observe: Observer) -> RemoteModel:
        """Have the engine load the SavedModel of `settings`; `observe` hears the seconds of each run.

        Raises StatusError where TensorFlow refuses it, PlatformError where the engine cannot work.
        """
        process = EngineProcess(settings.device)
        for _ in range(LOAD_ATTEMPTS):
            control = Connection(process.connect())
            try:
                welcome = _ask(control, {"load": _description(settings)})
                return cls(process, control, welcome, settings, observe)
            except EngineLost:
                control.close()
        raise PlatformError("The engine process of this runner ended while it loaded the model")

    def run(self, feeds: Sequence[Feed], fetches: Sequence[str]) -> list[Array]:
        """What is fetched, in wire form and in the order of `fetches`. Raises StatusError as SavedModel.run does."""
        key = (tuple([feed.name for feed in feeds]), tuple(fetches))
        prepared = self._prepared.get(key)
        text, dtypes = prepared or self._prepare(feeds, fetches)
        start = time.perf_counter()
        integers, parts = encode_feeds(feeds)
        answer = self._call(text, integers, parts)
        arrays = decode_arrays(dtypes, answer.integers, answer.data)
        if prepared is None:
            # The first run of its kind also builds TensorFlow's executors.
            self._prepared[key] = _Prepared(text, dtypes)
        else:
            self._observe(time.perf_counter() - start)
        return arrays

    def close(self) -> None:
        """Have the engine give the model back."""
        self._closing = True
        for connection in self._idle:
            connection.close()
        self._control.close()

    def _prepare(self, feeds: Sequence[Feed], fetches: Sequence[str]) -> _Prepared:
        question = {"feeds": [[feed.name, feed.dtype.number] for feed in feeds], "fetches": list(fetches)}
        return _Prepared(json.dumps(question).encode(), tuple([DTYPES[self._outputs[name]] for name in fetches]))

    def _call(self, text: bytes, integers: Sequence[int], parts: Sequence[Any]) -> Frame:
        try:
            connection = self._connection()
            connection.send(0, text, integers, parts)
            answer = connection.receive()
        except EngineLost as error:
            raise PlatformError(f"{LOST}: {error}") from error
        self._idle.append(connection)
        return _checked(answer)

    def _connection(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            connection = Connection(self._process.call())
            _ask(connection, {"run": self._model})
            return connection

    def _watch(self) -> None:
        """Wait on the control connection, over which the engine says nothing more, for the end of either side."""
        try:
            self._control.receive()
        except EngineLost as error:
            if not self._closing:
                logger.error("The engine process is gone (%s); this runner ends, too", error)
                time.sleep(LAST_WORDS_SECONDS)
                os._exit(1)


def _description(settings: RunnerConfig) -> dict[str, Any]:
    return {
        "saved_model": str(settings.saved_model),
        "outputs": dict(settings.outputs),
        "tags": settings.tags,
        "session_config": settings.session_config.hex(),
        "op_libraries": settings.op_libraries,
    }


def _ask(connection: Connection, question: dict[str, Any]) -> dict[str, Any]:
    connection.send(0, json.dumps(question).encode())
    answer: dict[str, Any] = json.loads(_checked(connection.receive()).text)
    return answer


def _checked(answer: Frame) -> Frame:
    if answer.code == PLATFORM:
        raise PlatformError(answer.text.decode())
    if answer.code:
        raise StatusError(answer.code, answer.text.decode())
    return answer
