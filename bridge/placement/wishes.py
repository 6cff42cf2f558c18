"""Models that somebody wants loaded, until they are or cannot be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from bridge.placement.cache import Entry, Room
from bridge.placement.choice import Chooser, Request, Wait
from bridge.placement.clock import Clock
from bridge.placement.errors import PlacementLoadError, nowhere
from bridge.placement.failures import FailureRules
from bridge.placement.host import Host
from bridge.placement.hosts import Hosts
from bridge.placement.model import CopyView, ErrorKind, Loadable
from bridge.placement.moves import Mover
from bridge.placement.ports import Catalog
from bridge.placement.settings import PlacementSettings
from bridge.placement.sizes import Sizes
from bridge.placement.tasks import Tasks
from bridge.placement.usage import Usage

Ticket = asyncio.Future[CopyView]


@dataclass
class Wish:
    """`copies` of a model are wanted. Each ticket comes true with as many copies as it asks for.

    It is urgent for its first copy only: urgent wishes for several could displace each other for ever.
    """

    model: Loadable
    last_used: int
    urgent: bool
    copies: int
    tickets: list[tuple[int, Ticket]] = field(default_factory=list)
    excluded: set[str] = field(default_factory=set)
    last_error: PlacementLoadError | None = None
    waiting: asyncio.Task[None] | None = None
    reason: str = ""

    def resolve(self, loaded: list[Entry], *, satisfied: bool) -> None:
        """Tell those who asked for no more copies than are loaded, or everybody if there can be no more."""
        for copies, ticket in self.tickets:
            if loaded and (satisfied or copies <= len(loaded)) and not ticket.done():
                ticket.set_result(CopyView(self.model, loaded[0].instance))
        self._forget_done()

    def refuse(self, error: PlacementLoadError, possible: int) -> None:
        """Tell those who asked for more copies than are possible."""
        for copies, ticket in self.tickets:
            if copies > possible and not ticket.done():
                ticket.set_exception(error)
        self._forget_done()

    def _forget_done(self) -> None:
        self.tickets = [item for item in self.tickets if not item[1].done()]


class Wishes:
    """Pursues each wish from instance to instance. A wish outlives those who wait for it."""

    def __init__(
        self,
        settings: PlacementSettings,
        clock: Clock,
        hosts: Hosts,
        chooser: Chooser,
        mover: Mover,
        catalog: Catalog,
        usage: Usage,
        sizes: Sizes,
        tasks: Tasks,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._hosts = hosts
        self._chooser = chooser
        self._mover = mover
        self._catalog = catalog
        self._usage = usage
        self._sizes = sizes
        self._tasks = tasks
        self._rules = FailureRules(settings)
        self._wishes: dict[str, Wish] = {}
        self._scheduled = False

    def __contains__(self, model_id: str) -> bool:
        return model_id in self._wishes

    def want(self, model: Loadable, last_used: int, *, urgent: bool, copies: int) -> Ticket:
        """Pursue so many copies, at least one and at most as many as instances may hold it."""
        wish = self._wishes.get(model.id)
        if wish is None or wish.model.key != model.key:
            earlier, wish = wish, Wish(model, last_used, urgent, copies)
            if earlier is not None:
                self._stop_waiting(earlier)
                wish.tickets = earlier.tickets
            self._wishes[model.id] = wish
        wish.last_used = max(wish.last_used, last_used)
        wish.urgent = wish.urgent or urgent
        wish.copies = max(wish.copies, copies)
        ticket: Ticket = asyncio.get_running_loop().create_future()
        ticket.add_done_callback(_look_at)
        wish.tickets.append((copies, ticket))
        self._hurry(wish)
        self._pursue(wish)
        return ticket

    def forget(self, model_id: str, error: PlacementLoadError) -> None:
        """Give a wish up."""
        wish = self._wishes.get(model_id)
        if wish is not None:
            wish.refuse(error, -1)
            self._drop(wish)

    def loaded(self, model_id: str) -> None:
        """A copy was loaded."""
        wish = self._wishes.get(model_id)
        if wish is not None:
            self._pursue(wish)

    def failed(self, entry: Entry, error: PlacementLoadError) -> None:
        """A copy could not be loaded: go on elsewhere."""
        wish = self._wishes.get(entry.model.id)
        if wish is None or wish.model.key != entry.model.key:
            return
        wish.last_error = error
        if error.kind is not ErrorKind.MODEL:
            wish.excluded.add(entry.instance)
        self._pursue(wish)

    def pursue_soon(self) -> None:
        """Something changed: see whether wishes that wait can go on."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pursue_all)

    def place(self, request: Request, chosen: Host) -> None:
        """Put a further copy on the instance that was chosen for it."""
        now = self._clock.now()
        priority = now + self._settings.urgent_priority_ms if request.urgent else request.last_used
        entry = Entry(request.model, chosen.name, request.size, request.last_used, priority, now, request.urgent)
        room: Room = chosen.cache.room(request.size, request.newer_than, now)
        self._mover.place(chosen, entry, room.victims)

    def request(self, model: Loadable, last_used: int, *, urgent: bool) -> Request:
        """A request for one more copy. Raises PlacementLoadError when too many loads failed."""
        now = self._clock.now()
        recorded = self._catalog.failures(model.id)
        verdict = self._rules.verdict(recorded, now)
        if verdict is not None:
            raise verdict
        failures = self._rules.unexpired(recorded, self._usage.last_used(model.id), now)
        return Request(model, self._sizes.expected(model), last_used, urgent, failures)

    def _hurry(self, wish: Wish) -> None:
        if not wish.urgent:
            return
        for entry in self._hosts.pending(wish.model):
            entry.urgent = True
            entry.priority = max(entry.priority, self._clock.now() + self._settings.urgent_priority_ms)

    def _pursue_all(self) -> None:
        self._scheduled = False
        for wish in sorted(self._wishes.values(), key=lambda wish: not wish.urgent):
            if self._wishes.get(wish.model.id) is wish:
                self._pursue(wish)

    def _pursue(self, wish: Wish) -> None:
        loaded = self._hosts.loaded(wish.model)
        wanted = self._possible(wish)
        wish.resolve(loaded, satisfied=len(loaded) >= wanted)
        if loaded:
            wish.urgent = False
        if len(loaded) >= wanted:
            self._drop(wish)
            return
        try:
            while len(loaded) + len(self._hosts.pending(wish.model)) < wanted:
                if not self._place_one(wish):
                    return
        except PlacementLoadError as error:
            self._refuse(wish, error)
        else:
            self._stop_waiting(wish)

    def _possible(self, wish: Wish) -> int:
        allowed = len(self._chooser.allowed(self._hosts.all(), wish.model.type))
        return max(1, min(wish.copies, allowed))

    def _place_one(self, wish: Wish) -> bool:
        request = self.request(wish.model, wish.last_used, urgent=wish.urgent)
        request = replace(request, excluded=frozenset(wish.excluded), last_error=wish.last_error)
        chosen = self._chooser.choose(self._hosts.all(), request, self._clock.now())
        if isinstance(chosen, Wait):
            self._wait(wish, chosen.reason)
            return False
        self.place(request, chosen)
        return True

    def _refuse(self, wish: Wish, error: PlacementLoadError) -> None:
        possible = len(self._hosts.loaded(wish.model)) + len(self._hosts.pending(wish.model))
        wish.refuse(error, possible)
        wish.copies = possible
        self._stop_waiting(wish)
        if possible == 0 or possible == len(self._hosts.loaded(wish.model)):
            self._drop(wish)

    def _wait(self, wish: Wish, reason: str) -> None:
        if wish.waiting is not None and reason == wish.reason:
            return
        self._stop_waiting(wish)
        wish.reason = reason
        wish.waiting = self._tasks.spawn(self._give_up(wish), f"wait of {wish.model.id}")

    async def _give_up(self, wish: Wish) -> None:
        up = any(host.open for host in self._hosts)
        await self._clock.sleep(self._settings.room_wait_ms if up else self._settings.no_instance_wait_ms)
        wish.waiting = None
        self._refuse(wish, nowhere(wish.reason))

    def _stop_waiting(self, wish: Wish) -> None:
        if wish.waiting is not None:
            wish.waiting.cancel()
            wish.waiting = None

    def _drop(self, wish: Wish) -> None:
        self._stop_waiting(wish)
        if self._wishes.get(wish.model.id) is wish:
            del self._wishes[wish.model.id]


def _look_at(ticket: Ticket) -> None:
    """Who asked may not care; an error that nobody looks at shall not be reported as forgotten."""
    if not ticket.cancelled():
        ticket.exception()
