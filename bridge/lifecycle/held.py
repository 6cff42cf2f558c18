"""Where the contents lie that rollbacks hold models at, and where they and all others came from at first."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.lifecycle.contents import NoContents, VersionContents
from bridge.lifecycle.servable import Servable
from bridge.registry.records import Model, ModelSpec
from bridge.registry.rollback_records import PinnedContent
from model_repo_sync.sources import VersionDirectory


class HeldContents:
    """What the control plane knows of contents. `keeper` knows more."""

    def __init__(self) -> None:
        self.keeper: VersionContents = NoContents()
        self._origins: dict[str, str] = {}
        self._loaded: dict[str, str] = {}

    def of(self, record: Model | ModelSpec) -> dict[int, str] | None:
        """The versions that a rollback holds the model at, with where they are kept; None for no rollback."""
        pin = record.pin if isinstance(record, Model) else None
        return dict(self.directories(record.name, pin.contents)) if pin is not None else None

    def directories(self, model: str, contents: Iterable[PinnedContent]) -> list[VersionDirectory]:
        """Where contents are kept, or would be."""
        found = []
        for item in contents:
            path = self.keeper.path(model, item.version, item.fingerprint)
            self._origins[path] = item.path
            found.append(VersionDirectory(item.version, path))
        return found

    def origin(self, path: str) -> str:
        """Where the files in `path` came from, which is what everybody is told."""
        return self._origins.get(path, path)

    def loaded(self, servable: Servable, path: str) -> Servable:
        """Remember that a version was loaded from `path`."""
        self._loaded[servable.triton_name] = self.origin(path)
        return servable

    def came_from(self, servable: Servable) -> str:
        """Where a version that serves was loaded from."""
        return self._loaded.pop(servable.triton_name, servable.source)
