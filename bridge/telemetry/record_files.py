"""TFRecord files that grow beside the event loop: one thread writes, nobody waits for it."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO

from bridge.errors import Code
from model_repo_sync.tfrecord import frame

logger = logging.getLogger(__name__)

SUFFIX = ".tfrecord"
WAITING_BYTES = 256 * 1024 * 1024
"""Bytes of records that may wait for the thread."""
IDLE_SECONDS = 60.0
"""A file that nothing is written to for so long is closed; the next record begins another one."""
CLOSE_SECONDS = 10.0
"""How long `close` waits for the records that are left."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record for the files of `prefix`, in parts. `written` is told OK once it is in the file, or UNAVAILABLE."""

    prefix: str
    parts: Sequence[bytes]
    written: Callable[[Code], None]

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


class RecordFiles:
    """Appends records to files named `<prefix>-<UTC time>-<pid>-<number>.tfrecord`.

    A record is one write, so a reader sees whole records and a killed server loses none that was reported as written.
    A file that reached `file_bytes` is followed by another one. Missing directories are made. A disk that is full or
    away costs the records of that time: they are reported and said in the log once.
    """

    def __init__(self, file_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._queue: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._files: dict[str, _File] = {}
        self._numbers = itertools.count(1)
        self._failing: set[str] = set()
        self._thread: threading.Thread | None = None

    def append(self, record: Record) -> bool:
        """Hand a record to the thread; False if too many wait already. `written` is called in the thread."""
        with self._lock:
            if self._waiting and self._waiting + record.size > WAITING_BYTES:
                return False
            self._waiting += record.size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="request log", daemon=True)
                self._thread.start()
        self._queue.put(record)
        return True

    def close(self) -> None:
        """Write what waits, for at most CLOSE_SECONDS, and close the files."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            logger.warning("%d bytes of logged requests could not be written in time", self._waiting)

    def _run(self) -> None:
        sweep = time.monotonic() + IDLE_SECONDS
        while True:
            try:
                record = self._queue.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                pass
            else:
                if record is None:
                    break
                self._take(record)
            now = time.monotonic()
            if now >= sweep:
                sweep = now + IDLE_SECONDS
                self._close_files(idle_since=now - IDLE_SECONDS)
        self._close_files(idle_since=time.monotonic())

    def _take(self, record: Record) -> None:
        code = self._write(record)
        with self._lock:
            self._waiting -= record.size
        record.written(code)

    def _write(self, record: Record) -> Code:
        prefix = record.prefix
        try:
            self._file(prefix).append(frame(b"".join(record.parts)))
        except OSError as error:
            self._forget(prefix)
            if prefix not in self._failing:
                self._failing.add(prefix)
                logger.error("Cannot log requests to %s*%s: %s", prefix, SUFFIX, error.strerror)
            return Code.UNAVAILABLE
        if prefix in self._failing:
            self._failing.discard(prefix)
            logger.info("Requests are logged to %s*%s again", prefix, SUFFIX)
        return Code.OK

    def _file(self, prefix: str) -> _File:
        """The open file of `prefix`, a new one where the last one is full. Raises OSError."""
        file = self._files.get(prefix)
        if file is not None and file.size >= self._file_bytes:
            self._forget(prefix)
            file = None
        if file is None:
            file = self._files[prefix] = _File(self._name(prefix))
        return file

    def _name(self, prefix: str) -> str:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        return f"{prefix}-{now}-{os.getpid()}-{next(self._numbers)}{SUFFIX}"

    def _forget(self, prefix: str) -> None:
        file = self._files.pop(prefix, None)
        if file is not None:
            file.close()

    def _close_files(self, idle_since: float) -> None:
        for prefix in [prefix for prefix, file in self._files.items() if file.last_write <= idle_since]:
            self._forget(prefix)


class _File:
    """A file of whole records."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = FileIO(path, "x")
        self.size = 0
        self.last_write = time.monotonic()

    def append(self, data: bytes) -> None:
        """Write `data` or nothing. Raises OSError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(self.size)
            raise
        self.size += len(data)
        self.last_write = time.monotonic()

    def close(self) -> None:
        self._file.close()
