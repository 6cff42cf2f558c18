"""Puts back what a model, a label or a vmodel resolved to: `plan` tells what that takes, `run` does all or nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from bridge import moments
from bridge.clock import Clock
from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.lifecycle.recorder import Recorder
from bridge.lifecycle.rollback_plan import Prepared, RollbackKind, RollbackPlan
from bridge.registry.records import Actor
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0


class Rollback:
    """The verbs of rollbacks, by kinds of subjects (`model`, `label`, `vmodel`).

    `alone` keeps the configuration from changing while a rollback runs. Raises BridgeError.
    """

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        recorder: Recorder,
        kinds: Mapping[str, RollbackKind],
        alone: Callable[[], AbstractAsyncContextManager[object]],
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._thread = thread
        self._recorder = recorder
        self._kinds = kinds
        self._alone = alone
        self._clock = clock

    async def plan(self, subject: str, to: str = "") -> RollbackPlan:
        """What going back would change. `to` is a time or `#SEQ`; empty is before the subject's last change.

        Raises NotFound for a subject that the history does not know, InvalidArgument for a time that is none.
        """
        return (await self._prepare(subject, to)).plan

    async def run(self, subject: str, to: str, actor: Actor) -> RollbackPlan:
        """Go back; what was done. Raises FailedPrecondition with the plan's refusal, and what `plan` raises."""
        async with self._alone():
            prepared = await self._prepare(subject, to)
            plan = prepared.plan
            if plan.refusal:
                raise FailedPrecondition(plan.refusal)
            if plan.changes:
                await prepared.work(actor)
                logger.info("%s is as it was at event #%d again", plan.subject, plan.seq)
            return plan

    async def _prepare(self, text: str, to: str) -> Prepared:
        # What was seen just now belongs to the state of now.
        await self._recorder.flush(FLUSH_SECONDS)
        subject = await self._thread.call(self._registry.find_subject, text)
        kind, _, name = subject.partition(":")
        if kind not in self._kinds:
            raise InvalidArgument(f"{subject} cannot be rolled back; only models, labels and vmodels can.")
        seq = await self._seq(subject, to) if to else await self._kinds[kind].last_change(name)
        return await self._kinds[kind].prepare(name, seq)

    async def _seq(self, subject: str, to: str) -> int:
        if to.startswith("#"):
            if not to[1:].isdecimal():
                raise InvalidArgument(f"'{to}' names no event; write #57, or a time.")
            return int(to[1:])
        at = moments.parse(to, self._clock.now())
        state = await self._thread.call(self._registry.state_at, at, subject)
        if state.gap is not None:
            since, until = state.gap
            to_ = f"to {moments.describe(until)}" if until is not None else "on"
            raise FailedPrecondition(f"Nothing was served at {to}: no bridge ran from {moments.describe(since)} {to_}.")
        return int(state.seq)
