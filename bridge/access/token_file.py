"""The file of the identities, read at the start and again whenever it changes."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from pathlib import Path

from bridge.access import entries
from bridge.access.entries import Entries
from bridge.access.identities import Identities
from bridge.errors import InvalidArgument

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0

Version = tuple[int, int, int, int]


class TokenFile:
    """Keeps `identities` as the file says. A bad file changes nothing: the last good one holds until it is mended."""

    def __init__(self, path: str, identities: Identities) -> None:
        self._path = Path(path)
        self._identities = identities
        self._version: Version | None = None
        self._problem = ""

    def load(self) -> None:
        """Read the file for the first time. Raises InvalidArgument."""
        self._version = self._look()
        self._identities.entries = self._read()

    async def watch(self, seconds: float = POLL_SECONDS) -> None:
        """Look at the file every `seconds` until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read the file if it changed. A problem is logged once."""
        try:
            version = self._look()
            if version == self._version and not self._problem:
                return
            found = self._read()
        except InvalidArgument as error:
            self._tell(error.message)
            return
        if version != self._version or self._problem:
            logger.info("%s was read again: %s", self._path, _extent(found))
        self._identities.entries, self._version, self._problem = found, version, ""

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            logger.error("%s; the identities known so far stay", problem)
        self._problem = problem

    def _look(self) -> Version:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise self._unreadable(error) from error
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> Entries:
        try:
            with self._path.open("rb") as file:
                data, mode = file.read(), os.fstat(file.fileno()).st_mode
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            found = entries.parse(data)
        except InvalidArgument as error:
            raise InvalidArgument(f"--access_token_file={self._path} cannot be used: {error.message}") from error
        if found.plain and mode & (stat.S_IRGRP | stat.S_IROTH):
            logger.warning("%s holds tokens and is readable by others than its owner", self._path)
        return found

    def _unreadable(self, error: OSError) -> InvalidArgument:
        return InvalidArgument(f"--access_token_file={self._path} cannot be read: {error.strerror}")


def _extent(found: Entries) -> str:
    return f"{len(found.tokens)} tokens, {len(found.subjects)} certificate subjects"
