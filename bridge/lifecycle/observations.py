"""Writes what the lifecycle observes as rows and events of the registry."""

from __future__ import annotations

import logging
import re

from bridge.errors import Code
from bridge.lifecycle.recorder import Recorder
from bridge.lifecycle.servable import Placeable, Servable
from bridge.registry.records import Actor, InstanceState
from bridge.registry.registry import Registry
from bridge.serving.routes import InstanceRoute, VersionState, VersionStatus

logger = logging.getLogger(__name__)

_CHANGING = re.compile(r"[0-9]+|tmp[a-z0-9_]{8}")
"""Sizes, times, ports and names of staging directories: the same trouble says other ones at each try."""

POLLER = Actor("bridge", "poller")
RECONCILE = Actor("bridge", "reconcile")


class Observations:
    """One method for each kind of change. Nothing here waits for the database."""

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        self._registry = registry
        self._recorder = recorder
        self._troubles: dict[tuple[str, int], str] = {}

    def version(
        self, model: str, status: VersionStatus, path: str, servable: Servable | None, *, asked: bool = False
    ) -> None:
        """A version changed its state. `asked` says that somebody's wish brought it up, not a look at a base path."""
        logger.log(
            logging.WARNING if status.code is not Code.OK else logging.INFO,
            "model %s version %d: %s%s",
            model,
            status.version,
            status.state.name,
            f" ({status.code.name}: {status.message})" if status.code is not Code.OK else "",
        )
        self._recorder.record(
            self._registry.record_version,
            model,
            status.version,
            int(status.state),
            int(status.code),
            status.message,
            path=path,
            identity=servable.saved_model.fingerprint if servable else "",
            actor=POLLER if status.state is VersionState.START and not asked else RECONCILE,
        )
        if status.state in (VersionState.AVAILABLE, VersionState.END):
            self._end_trouble(model, status.version)

    def warnings(self, servable: Servable) -> None:
        """What is odd about a SavedModel that serves all the same."""
        for sentence in servable.saved_model.warnings:
            logger.warning("model %s version %d: %s", servable.model, servable.version, sentence)
        for signature in servable.saved_model.signatures.values():
            if signature.problem:
                logger.warning("model %s version %d: %s", servable.model, servable.version, signature.problem)

    def copy_loaded(self, instance: str, servable: Placeable) -> None:
        self._recorder.record(
            self._registry.record_copy,
            servable.triton_name,
            servable.model,
            servable.version,
            instance,
            int(VersionState.AVAILABLE),
            actor=RECONCILE,
        )

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None:
        logger.warning("instance %s lost its copy %s: %s", instance, triton_name, reason)
        self._remove_copy(triton_name, instance, reason)

    def unloaded(self, servable: Placeable, instances: tuple[str, ...]) -> None:
        """Every copy of a version was taken away on purpose."""
        for instance in instances:
            self._remove_copy(servable.triton_name, instance, "unloaded")

    def instance(self, name: str, up: bool, reason: str) -> None:
        level = logging.INFO if up else logging.WARNING
        logger.log(level, "instance %s is %s", name, "up" if up else f"down: {reason}")
        self._recorder.record(
            self._registry.record_instance_state,
            name,
            InstanceState.UP if up else InstanceState.LOST,
            reason,
            actor=RECONCILE,
        )

    def instance_placed(self, route: InstanceRoute, owner: str) -> None:
        """An instance is reached at these addresses from now on."""
        self._recorder.record(
            self._registry.upsert_instance, route.name, route.grpc, route.http, owner, actor=RECONCILE
        )

    def trouble(self, model: str, version: int, sentence: str) -> None:
        """The platform keeps a version from loading; told at each try, said and written when it is something new."""
        kind = _CHANGING.sub("#", sentence)
        if self._troubles.get((model, version)) == kind:
            return
        self._troubles[model, version] = kind
        logger.warning("model %s version %d waits for the platform: %s", model, version, sentence)
        self._recorder.record(
            self._registry.record_problem, f"model:{model}", f"version {version}", sentence, actor=RECONCILE
        )

    def problem(self, model: str, path: str, sentence: str | None) -> None:
        """A problem of a model's source began, or is over when `sentence` is None."""
        if sentence is None:
            self._recorder.record(self._registry.clear_problem, f"model:{model}", path, actor=POLLER)
        else:
            self._recorder.record(self._registry.record_problem, f"model:{model}", path, sentence, actor=POLLER)

    def _end_trouble(self, model: str, version: int) -> None:
        if self._troubles.pop((model, version), None) is not None:
            self._recorder.record(self._registry.clear_problem, f"model:{model}", f"version {version}", actor=RECONCILE)

    def _remove_copy(self, triton_name: str, instance: str, reason: str) -> None:
        self._recorder.record(self._registry.remove_copy, triton_name, instance, reason, actor=RECONCILE)
