"""What commands ask about the integrity of a history: of a running server, or of the database itself."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from bridge import moments
from bridge.cli.admin import JsonObject
from bridge.cli.http_admin import HttpAdmin
from bridge.cli.progress import Progress
from bridge.errors import InvalidArgument, Unavailable

VERIFYING_SECONDS = 3600.0
"""How long a server may verify."""


class IntegrityAdmin(Protocol):
    """Blocking; each raises BridgeError. `anchor` is one in JSON, times are in microseconds UTC."""

    def verify(self, anchor: JsonObject | None, archived: Sequence[Path], progress: Progress) -> JsonObject: ...

    def anchor(self) -> JsonObject: ...

    def export(self, since: int | None, until: int | None) -> Iterator[str]: ...


class HttpIntegrity(HttpAdmin):
    """A running server, which verifies its history by its own audit key."""

    def verify(self, anchor: JsonObject | None, archived: Sequence[Path], progress: Progress) -> JsonObject:
        if archived:
            raise InvalidArgument(
                "Archives are verified beside the database: name it by --database_url or --state_dir."
            )
        query = {} if anchor is None else {"anchor": json.dumps(anchor)}
        with progress.waiting("the server verifies its history"):
            return self._ask("GET", "verify", query, timeout=VERIFYING_SECONDS)

    def anchor(self) -> JsonObject:
        return self._ask("GET", "export/anchor", {})

    def export(self, since: int | None, until: int | None) -> Iterator[str]:
        query = {name: moments.describe(at) for name, at in (("from", since), ("until", until)) if at is not None}
        with closing(self._connection()) as connection:
            try:
                response = self._send(connection, "GET", "export/events", query)
                if response.status != 200:
                    self._answer(response.status, response.read())
                for line in response:
                    yield line.decode().removesuffix("\n")
            except (OSError, http.client.HTTPException) as error:
                raise Unavailable(
                    f"The admin API {self._url} did not send the events to their end: {error}."
                ) from error


class DatabaseIntegrity:
    """The database at `url`, opened for each call; a server may use it at the same time."""

    def __init__(self, url: str, key: bytes | None) -> None:
        # The registry is imported only where no server is asked: that takes longer than asking one.
        from bridge.registry.integrity import Integrity

        self._integrity = Integrity(url, key)

    def verify(self, anchor: JsonObject | None, archived: Sequence[Path], progress: Progress) -> JsonObject:
        from bridge.registry import anchors

        found = None if anchor is None else anchors.read(anchor)
        return self._integrity.verify(found, archived, progress.of).to_json()

    def anchor(self) -> JsonObject:
        return self._integrity.anchor().to_json()

    def export(self, since: int | None, until: int | None) -> Iterator[str]:
        return self._integrity.export(since, until)
