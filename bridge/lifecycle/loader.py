"""Brings one version onto the fleet: TF Serving's retries for the model's faults, patience for the platform's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from bridge.errors import BridgeError, Code
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.servable import Prepare, Servable
from bridge.triton.instance import FailureKind, LoadFailure

logger = logging.getLogger(__name__)


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
            await asyncio.wait_for(self._withdrawn.wait(), seconds)
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
        on_trouble: PlatformTrouble,
        on_attempt: OnAttempt,
    ) -> None:
        self._prepare = prepare
        self._target = target
        self._executor = executor
        self._max_retries = max_retries
        self._retry_interval = retry_interval
        self._on_trouble = on_trouble
        self._on_attempt = on_attempt
        self._last_errors: dict[tuple[str, int], BridgeError] = {}

    def last_error(self, model: str, version: int) -> BridgeError | None:
        """The error of the last try that failed while this version is being loaded."""
        return self._last_errors.get((model, version))

    async def load(self, model: str, version: int, path: str, wish: Wish) -> Servable:
        """Return once a first copy is loaded.

        Raises BridgeError: the last try's error when the retries are used up or the wish was withdrawn, or CANCELLED
        when it was withdrawn before any try failed.
        """
        try:
            return await self._load(model, version, path, wish)
        finally:
            self._last_errors.pop((model, version), None)

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
            except BridgeError as failure:
                error = failure
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
        loop = asyncio.get_running_loop()
        servable = await loop.run_in_executor(self._executor, self._prepare, model, version, path)
        await self._target.load_first(servable)
        return servable
