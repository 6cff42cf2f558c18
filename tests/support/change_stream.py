"""A stream of changes that never pauses, with a record of what became of each."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.waiting import wait_for

FIRST = 1000
PAUSE = 0.005


class ChangeStream:
    """Sets the policy of `model` again and again, each time to another one that serves version 1 and nothing else.

    `ports` gives the admin ports to ask, HOST:PORT, one after the other. `acknowledged` are the numbers of changes that
    a server said it made, `doubtful` those that ended in an error: a killed server may have made them. `refused` are
    those to which UNAVAILABLE was answered, by the sentence.
    """

    def __init__(self, model: str, ports: Callable[[], list[str]]) -> None:
        self.acknowledged: list[int] = []
        self.doubtful: list[int] = []
        self.refused: dict[int, str] = {}
        self._model = model
        self._ports = ports
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_changes(self, count: int, seconds: float = 20.0) -> float:
        """Wait for `count` further acknowledged changes; the seconds that took."""
        goal, started = len(self.acknowledged) + count, time.monotonic()
        wait_for(lambda: len(self.acknowledged) >= goal, seconds, f"{count} more changes; refused: {self.refused}")
        return time.monotonic() - started

    def check(self, events: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]) -> None:
        """Fail unless `events`, oldest first, are what was acknowledged, and `policy` is what they imply."""
        told = [_number(event["after"]["policy"]) for event in events if event["action"] == "policy set"]
        assert len(told) == len(set(told)), "no change is told twice"
        assert set(self.acknowledged) <= set(told), "every acknowledged change is told"
        assert set(told) <= {*self.acknowledged, *self.doubtful}, "nothing is told that nobody asked for"
        assert told == sorted(told), "changes are told in the order in which they were made"
        assert _number(policy) == told[-1], "what holds is the last change"

    def _run(self) -> None:
        number = FIRST
        while not self._stop.wait(PAUSE):
            ports = self._ports()
            self._change(number, ports[number % len(ports)])
            number += 1

    def _change(self, number: int, port: str) -> None:
        body = json.dumps({"specific": {"versions": [1, number]}})
        try:
            connection = http.client.HTTPConnection(port, timeout=30)
            connection.request("PUT", f"/api/v1/policy?model={self._model}", body)
            response = connection.getresponse()
            answer = json.loads(response.read())
            connection.close()
        except (OSError, http.client.HTTPException, ValueError):
            self.doubtful.append(number)
            return
        if response.status == 200:
            assert answer == {"changed": True}
            self.acknowledged.append(number)
        else:
            assert (response.status, answer["code"]) == (503, "UNAVAILABLE"), answer
            self.doubtful.append(number)
            self.refused[number] = answer["error"]


def _number(policy: Mapping[str, Any]) -> int:
    [number] = [version for version in policy["specific"]["versions"] if version >= FIRST]
    return int(number)
