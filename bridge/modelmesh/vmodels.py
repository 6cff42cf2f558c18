"""The vmodels as this process knows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from bridge.registry.records import VModel


class VModels:
    """A mirror of the registry's vmodels that says when it changes. Used on one event loop."""

    def __init__(self) -> None:
        self._vmodels: dict[str, VModel] = {}
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[str], None]] = []

    def __iter__(self) -> Iterator[VModel]:
        return iter(self._vmodels.values())

    def get(self, id: str) -> VModel | None:
        return self._vmodels.get(id)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the id of each vmodel that changes, comes or goes."""
        self._listeners.append(listener)

    def put(self, vmodel: VModel) -> None:
        if self._vmodels.get(vmodel.id) != vmodel:
            self._vmodels[vmodel.id] = vmodel
            self._tell(vmodel.id)

    def drop(self, id: str) -> None:
        if self._vmodels.pop(id, None) is not None:
            self._tell(id)

    async def changed(self) -> None:
        """Wait for the next change of any vmodel."""
        await self._changed.wait()

    def _tell(self, id: str) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for listener in self._listeners:
            listener(id)
