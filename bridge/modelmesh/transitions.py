"""The transitions of vmodels, each driven to its end; what is to be done is read off the registry's rows alone.

So a process that was killed anywhere leaves nothing half done: the next one reads the rows and goes on.
"""

from __future__ import annotations

import asyncio
import logging

from bridge.errors import BridgeError
from bridge.lifecycle.backoff import Backoff
from bridge.modelmesh.catalog import ModelCatalog
from bridge.modelmesh.ledger import Ledger
from bridge.modelmesh.vmodels import VModels
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import ErrorKind
from bridge.placement.placement import Placement
from bridge.placement.tasks import Tasks
from bridge.placement.wishes import Ticket
from bridge.registry.records import VModel
from bridge.registry.vmodel_rules import copies_needed

logger = logging.getLogger(__name__)

FIRST_PAUSE, LAST_PAUSE = 0.25, 10.0
"""Seconds between two tries of a target that cannot be loaded. A recorded failure is met without a load."""


class Transitions:
    """One task for each vmodel in transition."""

    def __init__(self, ledger: Ledger, catalog: ModelCatalog, vmodels: VModels, placement: Placement) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._vmodels = vmodels
        self._placement = placement
        self._tasks = Tasks()
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._kicks: dict[str, asyncio.Event] = {}
        self._drives = False

    def start(self, *, drive: bool = True) -> None:
        """Hear of vmodels that change, and `drive`."""
        self._vmodels.listen(self._look)
        if drive:
            self.drive()

    def drive(self) -> None:
        """Go on with the transitions that there are, and with each that begins."""
        self._drives = True
        for vmodel in list(self._vmodels):
            self._look(vmodel.id)

    async def rest(self) -> None:
        """Leave every transition as it is."""
        self._drives = False
        await self._tasks.close()

    async def close(self) -> None:
        await self.rest()

    def _look(self, id: str) -> None:
        if not self._drives:
            return
        vmodel = self._vmodels.get(id)
        if id in self._driven:
            self._kicks[id].set()
        elif vmodel is not None and vmodel.in_transition:
            self._kicks[id] = asyncio.Event()
            self._driven[id] = self._tasks.spawn(self._drive(id), f"transition of vmodel {id}")

    async def _drive(self, id: str) -> None:
        try:
            while (vmodel := self._vmodels.get(id)) is not None and vmodel.in_transition:
                await self._follow(vmodel)
        finally:
            del self._driven[id], self._kicks[id]

    async def _follow(self, vmodel: VModel) -> None:
        """Try until this transition ended or became another one."""
        backoff = Backoff(FIRST_PAUSE, LAST_PAUSE)
        while (present := self._present(vmodel)) is not None:
            try:
                await self._try(present)
            except BridgeError as error:
                logger.warning("the transition of vmodel %s waits: %s", vmodel.id, error.message)
            except Exception:
                logger.exception("the transition of vmodel %s met an unexpected fault", vmodel.id)
            if self._stands(vmodel):
                await self._pause(vmodel, backoff.pause())

    def _stands(self, vmodel: VModel) -> bool:
        return self._present(vmodel) is not None

    def _present(self, vmodel: VModel) -> VModel | None:
        """The vmodel as it is now, None if it is not in this transition any more."""
        now = self._vmodels.get(vmodel.id)
        same = now is not None and now.in_transition and (now.active, now.target) == (vmodel.active, vmodel.target)
        return now if same else None

    async def _try(self, vmodel: VModel) -> None:
        """Load the target, and promote it or say why not. Raises BridgeError while the registry is away."""
        last_used = self._placement.last_used(vmodel.active) or self._catalog.last_used(vmodel.active)
        ticket = self._placement.ensure_loaded(vmodel.target, last_used, copies=self._needed(vmodel))
        if not ticket.done() and vmodel.target_failed:
            await self._ledger.fail(vmodel, False)
        if not await self._decided(vmodel, ticket):
            return
        error = ticket.exception()
        if len(self._placement.loaded(vmodel.target)) >= (1 if error else self._needed(vmodel)):
            await self._ledger.promote(vmodel)
        elif error is not None and self._is_failure(error):
            await self._ledger.fail(vmodel, True, str(error))

    def _needed(self, vmodel: VModel) -> int:
        target = self._catalog.get(vmodel.target)
        places = self._placement.possible_copies(target.type) if target is not None else 0
        return copies_needed(len(self._placement.loaded(vmodel.active)), places)

    def _is_failure(self, error: BaseException) -> bool:
        """Whether the target is to blame, or the lack of room for it; a fleet that is away blames nobody."""
        if not isinstance(error, PlacementLoadError) or error.kind is ErrorKind.PLATFORM:
            return False
        return any(instance.up for instance in self._placement.instances())

    async def _decided(self, vmodel: VModel, ticket: Ticket) -> bool:
        """Wait for the load; False if the transition became another one before that."""
        kick = self._kicks[vmodel.id]
        while self._stands(vmodel):
            kick.clear()
            kicked = asyncio.ensure_future(kick.wait())
            await asyncio.wait((ticket, kicked), return_when=asyncio.FIRST_COMPLETED)
            kicked.cancel()
            if ticket.done():
                return True
        return False

    async def _pause(self, vmodel: VModel, seconds: float) -> None:
        """Sleep, but wake up when the vmodel changes."""
        kick = self._kicks[vmodel.id]
        kick.clear()
        try:
            async with asyncio.timeout(seconds):
                await kick.wait()
        except TimeoutError:
            pass
