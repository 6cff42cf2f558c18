"""Brings one version onto the fleet: TF Serving's retries for the model's faults, patience for the platform's."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from bridge.errors import BridgeError, Code
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.servable import Prepare, Servable
from bridge.placement.errors import InsufficientResources
from bridge.triton.instance import FailureKind, LoadFailure
from model_repo_sync.object_store import local_path

logger = logging.getLogger(__name__)

_ERRNO_CODES = {
    errno.ENOENT: Code.NOT_FOUND,
    errno.EACCES: Code.PERMISSION_DENIED,
    errno.EPERM: Code.PERMISSION_DENIED,
    errno.ENOTDIR: Code.FAILED_PRECONDITION,
}
"""TensorFlow's codes for what the file system says (core/platform/errors.cc)."""


class LoadTarget(Protocol):
    """Where versions are loaded: the fleet."""

    async def load_first(self, servable: Servable) -> None:
        """Load a first copy somewhere. Raises LoadFailure."""


class Wish:
    """Whether a version is still wanted while it loads; `withdraw` ends pauses between tries at once."""

    def __init__(self) -> None:
        self._withdrawn = asyncio.Event()

    @property
    def stands(self) -> bool:
        return not self._withdrawn.is_set()

    def withdraw(self) -> None:
        self._withdrawn.set()

    def renew(self) -> None:
        self._withdrawn.clear()

    async def pause(self, seconds: float) -> None:
        """Sleep `seconds`, or less when the wish is withdrawn."""
        try:
            async with asyncio.timeout(seconds):
                await self._withdrawn.wait()
        except TimeoutError:
            pass


PlatformTrouble = Callable[[str, int, str], None]
"""Told model, version and one sentence each time the platform keeps a version from loading."""


OnAttempt = Callable[[str, bool, float], None]
"""Told path, success and seconds of each load that succeeded or failed for the model's reasons."""


class Loader:
    """Loads versions. A failure of the model counts against the retries; one of the platform never does."""

    def __init__(
        self,
        prepare: Prepare,
        target: LoadTarget,
        executor: Executor,
        *,
        max_retries: int,
        retry_interval: float,
        downloads: Downloads,
        on_trouble: PlatformTrouble,
        on_attempt: OnAttempt,
    ) -> None:
        """`max_retries` below zero is no end of tries, as in TF Serving, which reads it as a number without a sign."""
        self._prepare = prepare
        self._target = target
        self._executor = executor
        self._downloads = downloads
        self._max_retries = max_retries if max_retries >= 0 else sys.maxsize
        self._retry_interval = retry_interval
        self._on_trouble = on_trouble
        self._on_attempt = on_attempt
        self._last_errors: dict[tuple[str, int], BridgeError] = {}

    def last_error(self, model: str, version: int) -> BridgeError | None:
        """The error of the last try that failed while this version is being loaded."""
        return self._last_errors.get((model, version))

    async def reserve(self, model: str, version: int, path: str) -> None:
        """Look at the version directory before its load begins, as TF Serving does to estimate what it needs.

        Raises BridgeError with TF Serving's sentence (core/basic_manager.cc) when it went away meanwhile.
        """
        local = local_path(path)
        if local is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, os.listdir, local)
        except OSError as error:
            raise _not_reserved(model, version, local, error) from error

    async def release(self, servable: Servable) -> None:
        """Every copy of a version was unloaded."""
        await self._downloads.release(servable.saved_model.path)

    async def load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        """Return once a first copy is loaded.

        Raises BridgeError: the last try's error when the retries are used up or the wish was withdrawn, or CANCELLED
        when it was withdrawn before any try failed.
        """
        try:
            servable = await self._load(model, version, path, wish)
        except BridgeError:
            await self._downloads.discard(path)
            raise
        finally:
            self._last_errors.pop((model, version), None)
        self._downloads.hold(servable.saved_model.path)
        return servable

    async def _load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        failures = 0
        backoff = Backoff()
        while True:
            try:
                return await self._try(model, version, path)
            except LoadFailure as failure:
                if failure.kind is FailureKind.PLATFORM:
                    self._on_trouble(model, version, failure.message)
                    await wish.pause(backoff.pause())
                    if not wish.stands:
                        raise BridgeError("Loading of servable cancelled", Code.CANCELLED) from failure
                    continue
                error = BridgeError(failure.message, failure.code)
            except InsufficientResources:
                raise
            except BridgeError as failure:
                error = failure
            except Exception as failure:
                logger.exception("loading model %s version %d met an unexpected fault", model, version)
                error = BridgeError(f"{type(failure).__name__}: {failure}", Code.INTERNAL)
            failures += 1
            self._last_errors[model, version] = error
            logger.warning("loading model %s version %d failed (try %d): %s", model, version, failures, error)
            if failures <= self._max_retries:
                await wish.pause(self._retry_interval)
            if failures > self._max_retries or not wish.stands:
                raise error

    async def _try(self, model: str, version: int, path: str) -> Servable:
        started = time.monotonic()
        try:
            servable = await self._load_once(model, version, path)
        except BridgeError as error:
            if not (isinstance(error, LoadFailure) and error.kind is FailureKind.PLATFORM):
                self._on_attempt(path, False, time.monotonic() - started)
            raise
        self._on_attempt(path, True, time.monotonic() - started)
        return servable

    async def _load_once(self, model: str, version: int, path: str) -> Servable:
        try:
            local = await self._downloads.fetch(path)
        except FileNotFoundError as error:
            raise _not_reserved(model, version, path, error) from error
        loop = asyncio.get_running_loop()
        servable = await loop.run_in_executor(self._executor, self._prepare, model, version, local)
        await self._target.load_first(servable)
        return servable


def _not_reserved(model: str, version: int, path: str, error: OSError) -> BridgeError:
    code = _ERRNO_CODES.get(error.errno or 0, Code.UNKNOWN)
    reason = error.strerror or str(error)
    return BridgeError(
        f"Error while attempting to reserve resources to load servable {{name: {model} version: {version}}}: "
        f"{path}; {reason}",
        code,
    )
