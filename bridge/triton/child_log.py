"""What a child process prints: kept in rotated files of bounded size, with its last lines at hand for messages."""

from __future__ import annotations

import logging
import threading
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO

LONGEST_LINE = 64 * 1024
"""Bytes; a longer line is split, so that a child without line feeds cannot fill the memory."""


class _LineFile(RotatingFileHandler):
    """Writes lines as they are and drops those that a full disk refuses: the child must never block on its log."""

    dropped = 0

    def handleError(self, record: logging.LogRecord) -> None:
        self.dropped += 1


class ChildLog:
    """Copies a child's output to `path`, rotated to `path.1` ... `path.<backups>` past `max_bytes` bytes each.

    The child writes to a pipe that a thread reads, so rotation loses nothing and needs no help from the child. When
    this process is killed the pipe breaks, and the child dies with its parent anyway.
    """

    def __init__(self, path: Path, *, max_bytes: int, backups: int, remembered: int = 200) -> None:
        self.path = path
        self._file = _LineFile(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", delay=True)
        self._last: deque[str] = deque(maxlen=remembered)
        self._readers: list[threading.Thread] = []

    def follow(self, stream: IO[bytes]) -> None:
        """Read `stream` to its end in a thread of its own, then close it."""
        self._last.clear()
        self._readers = [reader for reader in self._readers if reader.is_alive()]
        reader = threading.Thread(target=self._copy, args=(stream,), name=f"log {self.path.name}", daemon=True)
        self._readers.append(reader)
        reader.start()

    def tail(self, lines: int | None = None) -> list[str]:
        """The last lines of the child that is followed now, oldest first; by default all that are remembered."""
        last = list(self._last)
        return last if lines is None else last[-lines:]

    def settle(self, timeout: float = 1.0) -> None:
        """Wait until a dead child's last words are read, at most `timeout` seconds."""
        for reader in self._readers:
            reader.join(timeout)

    def close(self) -> None:
        self.settle()
        self._file.close()

    def _copy(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(LONGEST_LINE):
                text = line.decode("utf-8", "backslashreplace").rstrip("\n")
                self._last.append(text)
                self._file.handle(logging.makeLogRecord({"msg": text}))
