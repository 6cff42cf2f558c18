"""What commands ask the history: a running server, or the database itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bridge.cli.admin import JsonObject
from bridge.cli.http_admin import HttpAdmin

if TYPE_CHECKING:
    from bridge.lifecycle.history_operations import HistoryOperations

T = TypeVar("T")


class HistoryAdmin(Protocol):
    """The verbs of `bridge.lifecycle.history_operations`, blocking. Results are the admin API's JSON. Each raises
    BridgeError."""

    def history(self, wanted: JsonObject) -> Sequence[JsonObject]:
        """`wanted` are fields of a `HistoryFilter`."""
        ...

    def at(self, time: str, subject: str) -> JsonObject: ...

    def diff(self, earlier: str, later: str, subject: str) -> JsonObject: ...

    def live(self, subject: str, version: int | None) -> Sequence[JsonObject]: ...


class HttpHistory(HttpAdmin):
    """A running server."""

    def history(self, wanted: JsonObject) -> Sequence[JsonObject]:
        query = {"from" if name == "since" else name: value for name, value in wanted.items() if value}
        return self._list("history", **query)

    def at(self, time: str, subject: str) -> JsonObject:
        state: JsonObject = self._ask("GET", "history/at", _given(time=time, subject=subject))["state"]
        return state

    def diff(self, earlier: str, later: str, subject: str) -> JsonObject:
        query = {"from": earlier, "to": later, **_given(subject=subject)}
        found: JsonObject = self._ask("GET", "history/diff", query)["diff"]
        return found

    def live(self, subject: str, version: int | None) -> Sequence[JsonObject]:
        query = {"subject": subject} | ({} if version is None else {"version": str(version)})
        intervals: Sequence[JsonObject] = self._ask("GET", "history/live", query)["live"]
        return intervals


class DatabaseHistory:
    """The database at `url`, opened for each call; a server may use it at the same time."""

    def __init__(self, url: str, key: bytes | None) -> None:
        self._url = url
        self._key = key

    def history(self, wanted: JsonObject) -> Sequence[JsonObject]:
        from bridge.lifecycle.history_operations import HistoryFilter

        found = self._ask(lambda operations: operations.history(HistoryFilter(**wanted)))
        return [asdict(event) for event in found]

    def at(self, time: str, subject: str) -> JsonObject:
        return asdict(self._ask(lambda operations: operations.at(time, subject)))

    def diff(self, earlier: str, later: str, subject: str) -> JsonObject:
        return asdict(self._ask(lambda operations: operations.diff(earlier, later, subject)))

    def live(self, subject: str, version: int | None) -> Sequence[JsonObject]:
        return [asdict(interval) for interval in self._ask(lambda operations: operations.live(subject, version))]

    def _ask(self, question: Callable[[HistoryOperations], Coroutine[Any, Any, T]]) -> T:
        # The registry is imported only where no server is asked: that takes longer than asking one.
        from bridge.lifecycle.history_operations import HistoryOperations
        from bridge.registry.registry import Registry

        with closing(Registry.open(self._url, audit_key=self._key)) as registry:
            return asyncio.run(question(HistoryOperations(registry)))


def _given(**query: str) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}
