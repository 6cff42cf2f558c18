"""The instances together: where a version's first copy goes, who holds copies, what every instance has to hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bridge.errors import BridgeError, Code
from bridge.lifecycle.servable import Placeable
from bridge.placement.errors import InsufficientResources
from bridge.serving.routes import InstanceRoute
from bridge.triton.instance import FailureKind, LoadFailure

if TYPE_CHECKING:
    from bridge.lifecycle.instance import InstanceController

UP_SECONDS = 5.0
"""How long a load waits for some instance to be up before that counts as the platform's failure."""


class Fleet:
    """Pinned servables live on every healthy instance; a version is AVAILABLE from its first copy."""

    def __init__(self) -> None:
        self.controllers: dict[str, InstanceController] = {}
        self._pinned: dict[str, Placeable] = {}
        self._loading: dict[str, Placeable] = {}
        self._maybe_wanted: Callable[[str], bool] = lambda name: True
        self._held: Callable[[str, str], bool] = lambda name, instance: False
        self._came_up = asyncio.Event()

    def add(self, controller: InstanceController) -> None:
        self.controllers[controller.name] = controller

    def keep_if(self, maybe_wanted: Callable[[str], bool]) -> None:
        """Say which names of this deployment nobody may clean up although no version holds them now."""
        self._maybe_wanted = maybe_wanted

    def hold_if(self, held: Callable[[str, str], bool]) -> None:
        """Say which names are held on which instances for others than versions."""
        self._held = held

    def servables(self) -> Mapping[str, Placeable]:
        """What every instance has to hold, by Triton name."""
        return self._pinned

    def is_known(self, triton_name: str, instance: str) -> bool:
        if triton_name in self._pinned or triton_name in self._loading:
            return True
        return self._held(triton_name, instance) or self._maybe_wanted(triton_name)

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        """Names of the instances that hold a loaded copy."""
        return tuple(name for name, item in self.controllers.items() if triton_name in item.loaded)

    def stored(self, triton_name: str) -> str | None:
        """Where the content of a version lies in some instance's repository, None where it does not."""
        return next((path for item in self.controllers.values() if (path := item.stored(triton_name))), None)

    def routes(self) -> Mapping[str, InstanceRoute]:
        """Where the request path reaches each instance that is attached."""
        return {name: item.route for name, item in self.controllers.items() if item.route is not None}

    async def load_first(self, servable: Placeable) -> None:
        """Load a first copy on the least loaded instance, on the next one if the platform fails there.

        Raises LoadFailure: of kind MODEL at once, of kind PLATFORM when no instance could; InsufficientResources when
        no instance has room for it.
        """
        self._loading[servable.triton_name] = servable
        try:
            failure: BridgeError = LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, "no Triton instance is up")
            for controller in await self._healthy():
                try:
                    await controller.load_pinned(servable)
                except InsufficientResources as error:
                    failure = error
                except LoadFailure as error:
                    failure = error
                    if error.kind is FailureKind.MODEL:
                        break
                else:
                    return
            raise failure
        finally:
            self._loading.pop(servable.triton_name, None)

    def pin(self, servable: Placeable) -> None:
        """Every instance holds this version from now on."""
        self._pinned[servable.triton_name] = servable
        for controller in self.controllers.values():
            controller.kick()

    async def unload(self, servable: Placeable) -> None:
        """Take every copy of this version off the instances."""
        self._pinned.pop(servable.triton_name, None)
        self._loading[servable.triton_name] = servable
        try:
            await asyncio.gather(*(item.unload(servable.triton_name) for item in self.controllers.values()))
        finally:
            self._loading.pop(servable.triton_name, None)

    def suspect(self, triton_name: str, instance: str, reason: str) -> None:
        """A request met trouble on one copy."""
        controller = self.controllers.get(instance)
        if controller is not None:
            controller.suspect(triton_name, reason)

    def instance_changed(self) -> None:
        """An instance came up or went down."""
        if any(item.up for item in self.controllers.values()):
            self._came_up.set()
        else:
            self._came_up.clear()

    async def _healthy(self) -> list[InstanceController]:
        """The instances that are up, the least loaded first; waits a moment for one."""
        try:
            async with asyncio.timeout(UP_SECONDS):
                await self._came_up.wait()
        except TimeoutError:
            return []
        return sorted((item for item in self.controllers.values() if item.up), key=lambda item: len(item.loaded))
