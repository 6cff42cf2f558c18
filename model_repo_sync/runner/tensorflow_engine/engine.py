"""The engine process of one device: it holds the SavedModels of many runners and runs them in threads of its own."""

from __future__ import annotations

import itertools
import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import device
from .allocator import trim
from .config import RunnerConfig
from .description import STATUS, anonymous_memory
from .dtypes import DTYPES, DType
from .engine_address import is_own_peer
from .errors import StatusError
from .frames import Connection, EngineLost, Frame
from .gpu_memory import GpuMemory
from .library import Library
from .remote_model import PLATFORM
from .saved_model import SavedModel
from .tensor_lists import decode_feeds, encode_arrays

logger = logging.getLogger(__name__)

BACKLOG = 128
TICK_SECONDS = 1.0
UNUSED_SECONDS = 10.0
"""How long the engine waits for a runner when there is none, which spares the next one TensorFlow's start."""


class Question(NamedTuple):
    """What a run feeds and fetches."""

    feeds: tuple[str, ...]
    feed_dtypes: tuple[DType, ...]
    fetches: tuple[str, ...]
    fetch_dtypes: tuple[DType, ...]


class Hosted:
    """A SavedModel with the connections that use it; the last one to leave closes it."""

    def __init__(self, model: SavedModel, outputs: dict[str, int]) -> None:
        self._model = model
        self._outputs = outputs
        self._questions: dict[bytes, Question] = {}
        self._lock = threading.Lock()
        self._users = 0

    def enter(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> bool:
        """Whether that closed the model."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self._model.close()
        return last

    def answer(self, connection: Connection, frame: Frame) -> None:
        """Run what `frame` asks for and send what came of it."""
        try:
            question = self._questions.get(frame.text) or self._question(frame.text)
            feeds = decode_feeds(question.feeds, question.feed_dtypes, frame.integers, frame.data)
            arrays = self._model.run(feeds, question.fetches)
            integers, parts = encode_arrays(question.fetch_dtypes, arrays)
        except BaseException as failure:
            _refuse(connection, failure)
        else:
            connection.send(0, b"", integers, parts)

    def _question(self, text: bytes) -> Question:
        asked = json.loads(text)
        question = Question(
            tuple([name for name, _ in asked["feeds"]]),
            tuple([DTYPES[number] for _, number in asked["feeds"]]),
            tuple(asked["fetches"]),
            tuple([DTYPES[self._outputs[name]] for name in asked["fetches"]]),
        )
        self._questions[text] = question
        return question


class Engine:
    """Serves the connections of runners until nobody needs it."""

    def __init__(self, place: int | None) -> None:
        """`place` is Triton's number of the GPU, None for the CPU."""
        self._device = place
        self._library: Library | None = None
        self._library_lock = threading.Lock()
        self._gpus = GpuMemory() if place is not None else None
        self._numbers = itertools.count()
        self._models: dict[int, Hosted] = {}
        self._connections = 0
        self._connections_lock = threading.Lock()
        self._worked = self._spent = False

    def serve(self, listener: socket.socket, triton: int) -> None:
        """Return when Triton, whose process descriptor is `triton`, ended, or when there was no runner for a while."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(triton, select.POLLIN)
        used = time.monotonic()
        while time.monotonic() - used < UNUSED_SECONDS:
            ready = {descriptor for descriptor, _ in poll.poll(TICK_SECONDS * 1000)}
            if triton in ready:
                return
            if ready:
                self._accept(listener)
            else:
                self._rest()
            if self._connections:
                used = time.monotonic()

    def _accept(self, listener: socket.socket) -> None:
        stream, _ = listener.accept()
        if not is_own_peer(stream):
            stream.close()
            return
        with self._connections_lock:
            self._connections += 1
        threading.Thread(target=self._converse, args=(Connection(stream),), daemon=True).start()

    def _rest(self) -> None:
        """Nobody came for a moment: when no request did either, give back what the last ones took."""
        if self._worked:
            self._worked, self._spent = False, True
        elif self._spent:
            self._spent = False
            trim()

    def _converse(self, connection: Connection) -> None:
        try:
            self._serve(connection)
        except EngineLost:
            pass  # The runner ended, or is done.
        except Exception:
            logger.exception("A runner said what the engine does not understand")
        finally:
            connection.close()
            with self._connections_lock:
                self._connections -= 1

    def _serve(self, connection: Connection) -> None:
        """The first frame names the model: a new one, which lives as long as this connection, or one that runs."""
        question = json.loads(connection.receive().text)
        try:
            number, welcome = self._load(question["load"]) if "load" in question else (question["run"], {})
            hosted = self._models[number]
        except BaseException as failure:
            _refuse(connection, failure)
            return
        hosted.enter()
        try:
            connection.send(0, json.dumps(welcome).encode())
            while True:
                self._answer(hosted, connection)
        finally:
            self._leave(number, hosted)

    def _answer(self, hosted: Hosted, connection: Connection) -> None:
        """One request. A call of its own, so that no tensor outlives its request in a local variable."""
        frame = connection.receive()
        self._worked = True
        hosted.answer(connection, frame)

    def _leave(self, number: int, hosted: Hosted) -> None:
        if hosted.leave():
            del self._models[number]
            trim()

    def _load(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Load a SavedModel: its number, and what its runner wants to know."""
        library = self._tensorflow()
        before = self._memory()
        settings = _settings(asked, self._device)
        number = next(self._numbers)
        self._models[number] = Hosted(SavedModel.load(library, settings, _deaf), asked["outputs"])
        memory, gpu_memory = self._memory()
        return number, {
            "model": number,
            "tensorflow": library.version,
            "memory_bytes": max(0, memory - before[0]),
            "device_bytes": max(0, gpu_memory - before[1]),
        }

    def _tensorflow(self) -> Library:
        with self._library_lock:
            if self._library is None:
                device.restrict(self._device, os.environ)
                self._library = Library.load()
            return self._library

    def _memory(self) -> tuple[int, int]:
        """Bytes of this process on the host and on GPUs. Of models that load at once each is told the growth of all."""
        return anonymous_memory(STATUS.read_text()), self._gpus.used_by(os.getpid()) if self._gpus else 0


def main(arguments: Sequence[str]) -> int:
    """Serve the runners of one Triton: its arguments are those of EngineProcess."""
    name, triton, place, _ = arguments
    logging.basicConfig(format="tensorflow_runner engine: %(message)s", level=logging.WARNING)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"\0{name}")
    except OSError:
        return 0  # Another runner's engine was faster, and serves all.
    listener.listen(BACKLOG)
    try:
        process = os.pidfd_open(int(triton))
    except ProcessLookupError:
        return 0
    Engine(None if place == "cpu" else int(place)).serve(listener, process)
    # Not in order: a run that never ends must not keep the process.
    os._exit(0)


def _settings(asked: dict[str, Any], place: int | None) -> RunnerConfig:
    return RunnerConfig(
        saved_model=Path(asked["saved_model"]),
        inputs={},
        outputs=asked["outputs"],
        tags=tuple(asked["tags"]),
        session_config=bytes.fromhex(asked["session_config"]),
        threads=1,
        queue_size=1,
        device=place,
        batching=None,
        op_libraries=tuple(asked["op_libraries"]),
        shared=False,
    )


def _refuse(connection: Connection, failure: BaseException) -> None:
    if isinstance(failure, StatusError):
        connection.send(failure.code, failure.text.encode())
    else:
        connection.send(PLATFORM, f"{type(failure).__name__}: {failure}".encode())


def _deaf(seconds: float) -> None:
    """The runner measures its runs itself."""
