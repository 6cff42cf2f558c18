"""What the request path of a replica asks of the control plane, wherever that is."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

from bridge.errors import BridgeError
from bridge.registry import notices
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.replicas.progress import RouterProgress
from bridge.serving.control import Control

logger = logging.getLogger(__name__)

USES_SECONDS = 2.0
"""How late uses of registered models may be told."""
USES_PER_NOTICE = 20
REASON_LIMIT = 500
"""Characters of a failure's reason that go into a notice."""


class ControlRelay:
    """A Control. It asks the control plane of this process while that leads, else the leader's, by notices.

    A notice that is lost does no harm: requests that wait repeat their demand, and a copy that fails fails again.
    """

    def __init__(self, registry: Registry, thread: RegistryThread, progress: RouterProgress) -> None:
        self.plane: Control | None = None
        """The control plane of this process, while it decides."""
        self._registry = registry
        self._thread = thread
        self._progress = progress
        self._failures: dict[tuple[str, str], str] = {}
        self._demands: dict[str, None] = {}
        self._uses: Counter[str] = Counter()
        self._pending = asyncio.Event()

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        if self.plane is not None:
            self.plane.report_failure(triton_name, instance, reason)
        else:
            self._failures[triton_name, instance] = reason[:REASON_LIMIT]
            self._pending.set()

    def drained(self, router: str, epoch: int) -> None:
        self._progress.drained(router, epoch)

    def load_on_demand(self, model_id: str) -> None:
        if self.plane is not None:
            self.plane.load_on_demand(model_id)
        else:
            self._demands[model_id] = None
            self._pending.set()

    def used(self, model_id: str, count: int) -> None:
        if self.plane is not None:
            self.plane.used(model_id, count)
        else:
            self._uses[model_id] += count

    def hear(self, word: str, content: Any) -> None:
        """A notice of another replica's request path, which counts only while this one leads."""
        if self.plane is None:
            return
        if word == notices.FAILURE:
            self.plane.report_failure(*content)
        elif word == notices.DEMAND:
            self.plane.load_on_demand(content)
        elif word == notices.USED:
            for model_id, count in content.items():
                self.plane.used(model_id, count)

    async def run(self) -> None:
        """Pass on what waits, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(USES_SECONDS):
                    await self._pending.wait()
            except TimeoutError:
                pass
            self._pending.clear()
            await self._tell()

    async def _tell(self) -> None:
        failures, self._failures = self._failures, {}
        demands, self._demands = self._demands, {}
        uses, self._uses = self._uses, Counter()
        told: list[tuple[str, Any]] = [(notices.FAILURE, [*copy, reason]) for copy, reason in failures.items()]
        told += [(notices.DEMAND, model_id) for model_id in demands]
        told += [(notices.USED, dict(some)) for some in _batches(uses)]
        try:
            for word, content in told:
                await self._thread.call(self._registry.notify, word, content)
        except BridgeError as error:
            logger.debug("the leader cannot be told: %s", error.message)


def _batches(uses: Counter[str]) -> list[list[tuple[str, int]]]:
    items = list(uses.items())
    return [items[start : start + USES_PER_NOTICE] for start in range(0, len(items), USES_PER_NOTICE)]
