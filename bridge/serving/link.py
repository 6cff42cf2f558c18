"""Request path and control plane in two processes: snapshots one way, `Control` calls the other, over a stream.

The control plane sends `routes` (a snapshot, by what changed since the last one), `settled` (the epoch that every
router uses, or a newer one) and `lost` ([triton_name, instance]). A router sends `drained` ([router, epoch]), at least
every HEARTBEAT seconds so that its lease goes on, `using` ([epoch, settled epoch]: the snapshots that its requests and
its answers about states come from), `failure` ([triton_name, instance, reason]), `demand` (a registered model's id) and
`used` (how often each registered model was used since the last such message). Either end may know more words.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import orjson

from bridge.serving.control import Control, RoutesView
from bridge.serving.lines import Lines
from bridge.serving.routes import EMPTY, Routes
from bridge.serving.routes_delta import dumps, loads

HEARTBEAT = 2.0
"""Seconds between two `drained` messages of an idle router."""


class Router:
    """A router at the other end of a connection.

    `heard` counts its messages; `sent` is the snapshot that it was sent last, `used` is the epoch that it uses, `told`
    the one that it was told to be settled, and `settled` the one from which it tells of states.
    """

    def __init__(self, name: str, lines: Lines) -> None:
        self.name = name
        self.heard = 0
        self.used = 0
        self.told = 0
        self.settled = 0
        self.sent = EMPTY
        self.send = lines.send
        self.send_newest = lines.send_newest
        self.hang_up = lines.hang_up


Word = Callable[[Router, bytes], None]
"""What to do with a router's message."""


class Roll(Protocol):
    """Told which routers there are."""

    def joined(self, router: Router) -> None:
        """This router gets every snapshot from now on."""

    def left(self, router: Router) -> None:
        """This router's connection ended."""


class _NoRoll:
    def joined(self, router: Router) -> None:
        """Nobody asks."""

    def left(self, router: Router) -> None:
        """Nobody asks."""


class LinkHub:
    """The control plane's end of all connections. `control` hears what routers say, `words` are further messages."""

    def __init__(
        self, control: Control, *, words: Mapping[str, Word] = MappingProxyType({}), roll: Roll | None = None
    ) -> None:
        self._words: Mapping[str, Word] = {
            "drained": lambda router, document: control.drained(*orjson.loads(document)),
            "failure": lambda router, document: control.report_failure(*orjson.loads(document)),
            "demand": lambda router, document: control.load_on_demand(orjson.loads(document)),
            "used": lambda router, document: _count(control, orjson.loads(document)),
            "using": self._using,
            **words,
        }
        self._roll: Roll = roll or _NoRoll()
        self._routers: set[Router] = set()
        self._routes = EMPTY
        self._changes: dict[tuple[int, int], bytes] = {}
        self._moved = asyncio.Event()

    @property
    def routers(self) -> frozenset[Router]:
        """Those that are connected."""
        return frozenset(self._routers)

    def publish(self, routes: Routes) -> None:
        """Send `routes` to every router, also to those that connect later. One that falls behind gets the newest."""
        self._routes = routes
        self._changes.clear()
        for router in self._routers:
            router.send_newest("routes", lambda to=router: self._snapshot(to))  # type: ignore[misc]

    def lose(self, triton_name: str, instance: str) -> None:
        """Tell every router that the process of that copy died (`RoutesView.lose`)."""
        for router in self._routers:
            router.send("lost", orjson.dumps([triton_name, instance]))

    async def wait_settled(self) -> None:
        """Return once every router uses, and tells of, the newest snapshot of this moment."""
        epoch = self._routes.epoch
        while any(router.settled < epoch for router in self._routers):
            await self._moved.wait()

    async def serve(self, lines: Lines, name: str = "") -> None:
        """Talk to one router until it hangs up."""
        router = Router(name, lines)
        self._routers.add(router)
        self._roll.joined(router)
        if self._routes is not EMPTY:
            router.send_newest("routes", lambda: self._snapshot(router))
        try:
            await lines.run(lambda word, document: self._receive(router, word, document))
        finally:
            self._routers.discard(router)
            self._roll.left(router)
            self._settle()

    def _snapshot(self, router: Router) -> bytes:
        """The newest snapshot for a router that has been sent another one, or none."""
        base, router.sent = router.sent, self._routes
        key = base.epoch, self._routes.epoch
        if key not in self._changes:
            self._changes[key] = dumps(base, self._routes)
        return self._changes[key]

    def _receive(self, router: Router, word: str, document: bytes) -> None:
        router.heard += 1
        if word in self._words:
            self._words[word](router, document)

    def _using(self, router: Router, document: bytes) -> None:
        router.used, router.settled = orjson.loads(document)
        self._settle()

    def _settle(self) -> None:
        """Tell every router of a snapshot that all of them use by now."""
        used = min((router.used for router in self._routers), default=0)
        for router in self._routers:
            if router.told < used:
                router.told = used
                router.send("settled", orjson.dumps(used))
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


class RouterLink:
    """The router's end: feeds `view` and is its `Control`. `words` are further messages.

    While no connection is there the view keeps its last snapshot, and failures are kept (the newest per copy) as are
    demands and uses. Uses go along with other messages, HEARTBEAT seconds late at most.
    """

    def __init__(self, view: RoutesView, words: Mapping[str, Callable[[bytes], None]] = MappingProxyType({})) -> None:
        self._view = view
        self._words: Mapping[str, Callable[[bytes], None]] = {
            "routes": self._publish,
            "settled": self._settled,
            "lost": lambda document: view.lose(*orjson.loads(document)),
            **words,
        }
        self._failures: dict[tuple[str, str], str] = {}
        self._demands: dict[str, None] = {}
        self._uses: Counter[str] = Counter()
        self._pending = asyncio.Event()
        self._received = EMPTY
        view.connect(self.drained)

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self._failures[triton_name, instance] = reason
        self._pending.set()

    def drained(self, router: str, epoch: int) -> None:
        """The epoch is asked of the view when the message goes out, so that only the newest is sent."""
        self._pending.set()

    def load_on_demand(self, model_id: str) -> None:
        self._demands[model_id] = None
        self._pending.set()

    def used(self, model_id: str, count: int) -> None:
        self._uses[model_id] += count

    async def talk(self, lines: Lines) -> None:
        """Talk to the control plane until it hangs up."""
        telling = asyncio.create_task(self._tell(lines))
        try:
            await lines.run(self._receive)
        finally:
            telling.cancel()

    def _publish(self, document: bytes) -> None:
        self._received = loads(self._received, document)
        self._view.publish(self._received, settled=False)

    def _receive(self, word: str, document: bytes) -> None:
        if word in self._words:
            self._words[word](document)

    def _settled(self, document: bytes) -> None:
        self._view.settle(orjson.loads(document))
        self._pending.set()

    async def _tell(self, lines: Lines) -> None:
        while True:
            self._pending.clear()
            for word, document in self._messages():
                lines.send(word, document)
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._pending.wait()
            except TimeoutError:
                pass

    def _messages(self) -> list[tuple[str, bytes]]:
        failures, self._failures = self._failures, {}
        demands, self._demands = self._demands, {}
        uses, self._uses = self._uses, Counter()
        messages = [("failure", orjson.dumps([*copy, reason])) for copy, reason in failures.items()]
        messages += [("demand", orjson.dumps(model_id)) for model_id in demands]
        if uses:
            messages.append(("used", orjson.dumps(uses)))
        view = self._view
        if view.routes is not EMPTY:
            messages.append(("drained", orjson.dumps([view.router, view.drained_epoch()])))
            messages.append(("using", orjson.dumps([view.routes.epoch, view.settled.epoch])))
        return messages


def _count(control: Control, uses: Mapping[str, int]) -> None:
    for model_id, count in uses.items():
        control.used(model_id, count)
