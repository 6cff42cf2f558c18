"""A Triton instance as placement sees it: copies of registered models, loaded and unloaded by its controller."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bridge.errors import BridgeError, Code, Unavailable
from bridge.lifecycle.instance import InstanceController
from bridge.lifecycle.room import Room
from bridge.lifecycle.servable import Placeable
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import ErrorKind, Loadable
from bridge.triton.instance import FailureKind, LoadFailure


class Content(Protocol):
    """What `Loadable.content` of a registered model is."""

    @property
    def triton_name(self) -> str: ...

    def prepared(self) -> AbstractAsyncContextManager[Placeable]:
        """The model with its files, which are there until the end.

        Raises BridgeError for the model's faults, LoadFailure for the platform's.
        """
        ...


class ControlledInstance:
    """The CacheInstance of one controller. `capacity` tells bytes, 0 while that is not known."""

    def __init__(
        self, controller: InstanceController, capacity: Callable[[], int], labels: frozenset[str] = frozenset()
    ) -> None:
        self.labels = labels
        self._capacity = capacity
        self._controller = controller
        self._held: set[str] = set()

    @property
    def name(self) -> str:
        return self._controller.name

    @property
    def capacity(self) -> int:
        return self._capacity()

    @property
    def up(self) -> bool:
        return self._controller.up

    @property
    def held(self) -> Collection[str]:
        """Triton names of the copies that placement put there and did not take off yet."""
        return self._held

    @property
    def found(self) -> Collection[str]:
        """Triton names of copies that were there already when the instance came up."""
        return self._controller.found

    def keep(self, triton_name: str) -> None:
        """That copy, which was found, may stay."""
        self._held.add(triton_name)

    def share(self, room: Room) -> None:
        """Have what is pinned to the instance find its room in `room`."""
        self._controller.room = room

    def lost(self) -> None:
        """The instance is down: it holds nothing any more."""
        self._held.clear()

    def copy_lost(self, triton_name: str) -> None:
        """That copy is gone by itself."""
        self._held.discard(triton_name)

    async def load(self, model: Loadable) -> int:
        """Before anybody hears of the copy it is measured: nothing is evicted for what was only predicted."""
        content = _content(model)
        self._held.add(content.triton_name)
        try:
            async with content.prepared() as servable:
                await self._controller.load(servable)
                expected = servable.expected_bytes
        except LoadFailure as failure:
            if failure.kind is FailureKind.PLATFORM:
                raise PlacementLoadError(failure.code, failure.message, ErrorKind.PLATFORM) from failure
            raise _fault_of_model(failure) from failure
        except BridgeError as error:
            raise _fault_of_model(error) from error
        return await self._measured(model) or expected

    async def unload(self, model: Loadable) -> None:
        name = _content(model).triton_name
        if not await self._controller.unload(name):
            raise Unavailable(f"instance {self.name} did not let go of {name}")
        self._held.discard(name)

    async def model_size(self, model: Loadable) -> int:
        return (await self._controller.describe(_content(model).triton_name)).bytes

    async def _measured(self, model: Loadable) -> int:
        """0 for a model that no runner of ours serves, or one that does not answer."""
        try:
            return await self.model_size(model)
        except BridgeError:
            return 0


def _content(model: Loadable) -> Content:
    content: Content = model.content  # type: ignore[assignment]
    return content


def _fault_of_model(error: BridgeError) -> PlacementLoadError:
    """ModelMesh answers a request for a model that cannot be loaded with INTERNAL, and names the code in the text."""
    return PlacementLoadError(Code.INTERNAL, f"{error.code.name}: {error.message}", ErrorKind.MODEL)
