"""What rollbacks need: who knows and keeps the contents of versions, and the verbs."""

from __future__ import annotations

from pathlib import Path

from bridge.clock import SystemClock
from bridge.executors import Executors
from bridge.lifecycle.configurator import Configurator
from bridge.lifecycle.content_watch import ContentWatch
from bridge.lifecycle.contents import Contents
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.label_rollback import LabelRollbacks
from bridge.lifecycle.model_rollback import ModelRollbacks
from bridge.lifecycle.rollback import Rollback
from bridge.lifecycle.rollback_contents import RollbackContents
from bridge.lifecycle.rollback_plan import RollbackKind
from bridge.modelmesh.manager import ModelMeshManager
from bridge.modelmesh.vmodel_rollback import VModelRollbacks
from bridge.registry_access import RegistryAccess
from bridge.settings import Settings
from model_repo_sync import names
from model_repo_sync.content import ContentReader
from model_repo_sync.kept import KeptContents
from model_repo_sync.transfer import TransferMode


class RollbackParts:
    """The parts of one term of deciding. Contents are kept in `directory`."""

    def __init__(
        self, settings: Settings, access: RegistryAccess, executors: Executors, downloads: Downloads, directory: Path
    ) -> None:
        self._settings = settings
        self._access = access
        self._downloads = downloads
        reader, clock = ContentReader(), SystemClock()
        self.contents = Contents(
            access.registry,
            access.thread,
            access.recorder,
            KeptContents(directory, TransferMode(settings.model_transfer)),
            ContentWatch(access.registry, access.recorder, reader, executors.scans, executors.contents),
            reader,
            executors.contents,
            clock,
            count=settings.rollback_keep,
        )

    def rollback(self, plane: ControlPlane, configurator: Configurator, manager: ModelMeshManager | None) -> Rollback:
        """The verbs, for what `plane` serves and `manager` has registered."""
        registry, thread, clock = self._access.registry, self._access.thread, SystemClock()

        def stored(model: str, version: int) -> str | None:
            return plane.fleet.stored(names.servable_name(registry.deployment_id, model, version))

        contents = RollbackContents(registry, thread, self.contents, self._downloads, stored, clock)
        patience = float(self._settings.reload_timeout_seconds)
        kinds: dict[str, RollbackKind] = {
            "model": ModelRollbacks(registry, thread, plane, contents, configurator.follow, patience or None),
            "label": LabelRollbacks(registry, thread, plane, configurator.follow),
            "vmodel": VModelRollbacks(registry, thread, manager, self.contents),
        }
        return Rollback(registry, thread, self._access.recorder, kinds, configurator.alone, clock)
