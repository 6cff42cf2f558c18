"""Loads that requests wait for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bridge.errors import BridgeError, Code
from bridge.placement.clock import Clock
from bridge.placement.placement import Placement
from bridge.placement.wishes import Ticket
from bridge.serving.routes import LoadFailure


def _uncounted(model_id: str, waited_ms: int) -> None:
    """Nobody counts."""


class Demands:
    """At most one load is demanded for a model at a time. `changed` is told the id of a model whose demand failed.

    `missed` is told the id of a model for which a request waited, and for how many milliseconds.
    """

    def __init__(
        self,
        placement: Placement,
        clock: Clock,
        changed: Callable[[str], None],
        missed: Callable[[str, int], None] = _uncounted,
    ) -> None:
        self._placement = placement
        self._clock = clock
        self._changed = changed
        self._missed = missed
        self._tickets: dict[str, Ticket] = {}
        self._failures: dict[str, LoadFailure] = {}

    def failure(self, model_id: str) -> LoadFailure | None:
        """The answer to the last demand that failed."""
        return self._failures.get(model_id)

    def demand(self, model_id: str) -> None:
        """A request waits for this model."""
        if model_id in self._tickets:
            return
        now = self._clock.now()
        ticket = self._placement.ensure_loaded(model_id, now, urgent=True)
        self._tickets[model_id] = ticket
        ticket.add_done_callback(partial(self._done, model_id, now))

    def forget(self, model_id: str) -> None:
        """The model is registered no more."""
        self._failures.pop(model_id, None)

    def _done(self, model_id: str, since: int, ticket: Ticket) -> None:
        self._missed(model_id, self._clock.now() - since)
        if self._tickets.get(model_id) is ticket:
            del self._tickets[model_id]
        error = None if ticket.cancelled() else ticket.exception()
        if error is None:
            return
        last = self._failures.get(model_id)
        code, message = (error.code, error.message) if isinstance(error, BridgeError) else (Code.INTERNAL, str(error))
        self._failures[model_id] = LoadFailure(last.number + 1 if last else 1, code, message)
        self._changed(model_id)
