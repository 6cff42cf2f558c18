"""The calls of the registry that ask the history and follow what is live."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.registry import differences, history, intervals, live, processes, subjects
from bridge.registry.database import Database
from bridge.registry.history_records import Diff, HistoryQuery, LiveInterval, StateAt
from bridge.registry.live import Move
from bridge.registry.records import Actor, EventRecord, JsonObject
from bridge.registry.transaction import Transaction, Transactions

HEARTBEAT = Actor("bridge", "heartbeat")
"""For a row that is no event."""


class RecordedHistory:
    """A part of the registry. Times are microseconds UTC; answers hold for one consistent snapshot of the database."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database = database
        self._transactions = transactions

    def history(self, query: HistoryQuery) -> tuple[EventRecord, ...]:
        """The events that fit."""
        return self._database.read(lambda connection: history.read_history(connection, query))

    def state_at(self, at: int, subject: str | None = None) -> StateAt:
        """The state at a time, of one subject or of all.

        Raises InvalidArgument for the future, BridgeError with OUT_OF_RANGE before the first event, FailedPrecondition
        where the history is archived.
        """
        now = self._transactions.now()
        return self._database.read(lambda connection: history.read_state(connection, at, now, subject))

    def state_at_seq(self, seq: int, subject: str | None = None) -> StateAt:
        """The state just after the event `seq`. Raises BridgeError with OUT_OF_RANGE if there is no such event."""
        return self._database.read(lambda connection: history.read_state_after(connection, seq, subject))

    def diff(self, from_at: int, to_at: int, subject: str | None = None) -> Diff:
        """What differs at the second time from the first. Raises what `state_at` raises."""
        now = self._transactions.now()
        return self._database.read(lambda connection: differences.read_diff(connection, from_at, to_at, now, subject))

    def live_intervals(
        self, subject: str, version: int | None = None, latest: int | None = None
    ) -> tuple[LiveInterval, ...]:
        """For how long a model, label or vmodel resolved to what, oldest first.

        With `version` the times for which that version could be called by its number, or the label meant it; with
        `latest` only what the last moves made, so many.
        """
        now = self._transactions.now()
        return self._database.read(
            lambda connection: intervals.read_intervals(connection, subject, now, version, latest)
        )

    def live_moves(self, subject: str, latest: int | None = None) -> tuple[LiveInterval, ...]:
        """As `live_intervals`, but with an interval for each move, also where only other versions came or went."""
        now = self._transactions.now()
        return self._database.read(lambda connection: intervals.read_moves(connection, subject, now, latest))

    def subjects(self, prefix: str = "") -> tuple[str, ...]:
        """The subjects that the history knows, by name."""
        return self._database.read(lambda connection: subjects.read_subjects(connection, prefix))

    def find_subject(self, text: str) -> str:
        """The subject that `text` names, in full or by a name that only one has. Raises NotFound, InvalidArgument."""
        return self._database.read(lambda connection: subjects.find_subject(connection, text))

    def live(self) -> dict[str, JsonObject]:
        """What each selector that is served resolves to now, by subject."""
        return self._database.read(live.read_live)

    def record_moves(self, moves: Sequence[Move], actor: Actor) -> None:
        """Write what selectors resolve to from now on, each with what caused that; what is no news is left out.

        `actor` stands for those moves of which nobody knows the cause.
        """
        self._transactions.run(lambda tx: live.record_moves(tx, moves), actor)

    def begin_process(self, name: str, actor: Actor) -> str:
        """A bridge begins; its id for `heartbeat` and `end_process`.

        `name` is one that no other living process has. What ended without a word before is told now, and what was
        served then ended with its last heartbeat, unless another bridge lives.
        """

        def begin(tx: Transaction) -> str:
            id, until = processes.begin_process(tx, name, shared=self._database.shared)
            if until is not None:
                live.close_all(tx, until)
            return id

        return self._transactions.run(begin, actor)

    def heartbeat(self, id: str) -> None:
        """The process lives; no event."""
        self._transactions.run(lambda tx: processes.beat(tx, id), HEARTBEAT)

    def end_process(self, id: str, actor: Actor) -> None:
        """The process ends, and with the last one everything that was served."""

        def end(tx: Transaction) -> None:
            if processes.end_process(tx, id):
                live.close_all(tx, None)

        self._transactions.run(end, actor)
