"""The instances together: who holds what."""

from __future__ import annotations

from collections.abc import Iterator

from bridge.placement.cache import Entry, EntryState
from bridge.placement.host import Host
from bridge.placement.model import Loadable


class Hosts:
    """Instances by name, and the copies on them."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def add(self, host: Host) -> None:
        self._hosts[host.name] = host

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def get(self, name: str) -> Host | None:
        return self._hosts.get(name)

    def all(self) -> list[Host]:
        return list(self._hosts.values())

    def entries(self, model_id: str) -> list[Entry]:
        """The copies of a model in any state, of any registration."""
        found = (host.cache.entries.get(model_id) for host in self)
        return [entry for entry in found if entry is not None]

    def loaded(self, model: Loadable) -> list[Entry]:
        """The copies of this registration that serve and will stay."""
        return [entry for entry in self._staying(model) if entry.state is EntryState.LOADED]

    def pending(self, model: Loadable) -> list[Entry]:
        """The copies of this registration that are on their way."""
        return [entry for entry in self._staying(model) if entry.state is not EntryState.LOADED]

    def least_recently_used(self) -> int | None:
        """When the copy was used that was not used for longest; None without copies."""
        ages = (host.cache.least_recently_used() for host in self)
        return min((age for age in ages if age is not None), default=None)

    def _staying(self, model: Loadable) -> Iterator[Entry]:
        for host in self:
            entry = host.cache.entries.get(model.id)
            if entry is not None and entry.model.key == model.key and not host.draining:
                yield entry
