"""Takes configurations from the start, from the polled file and from clients, one at a time, and makes them wanted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from bridge.errors import BridgeError, Code, InvalidArgument, Unavailable
from bridge.lifecycle.backoff import Backoff
from bridge.lifecycle.configuration import Configuration, Rules, after, from_file, given, requested
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.source_config import check_versions, rules
from bridge.lifecycle.trial import Trial
from bridge.registry.records import Actor, Owner
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.settings import Settings
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig

logger = logging.getLogger(__name__)

START = "start"
"""Origin of what the flags or the file say: changing from one to the other is a change of content."""
CLIENT = "HandleReloadConfigRequest"

STARTER = Actor("bridge", "CLI")
POLLER = Actor("bridge", "poller")

DEADLINE_MARGIN = 0.1
"""Seconds before a client's deadline at which a reload gives up, so that its answer still arrives."""


class Configurator:
    """The only way by which the configuration changes. A bad one is recorded, said once, and changes nothing.

    Without a control plane (another bridge on the same database decides) what is wanted is only written down.
    """

    def __init__(
        self, settings: Settings, registry: Registry, thread: RegistryThread, plane: ControlPlane | None
    ) -> None:
        self._settings = settings
        self._rules = Rules.of(settings)
        self._registry = registry
        self._thread = thread
        self._plane = plane
        self._lock = asyncio.Lock()
        self._seen: tuple[str, str] | None = None

    async def start(self) -> None:
        """Make this start's configuration the wanted one, unless it is unchanged, and apply what is wanted.

        A configuration that cannot be used is recorded as rejected, and what was wanted before goes on. Raises its
        BridgeError when nothing was wanted before.
        """
        configuration = given(self._settings)
        if configuration is not None:
            self._seen = _identity(configuration)
            configuration = await self._following(configuration)
        async with self._lock:
            if configuration is not None and configuration.error is None:
                await self._check_versions(configuration)
                await self._apply(START, configuration, STARTER)
            elif configuration is not None:
                await self._reject(START, configuration, STARTER)
            await self._need_some(configuration)
            await self._apply_wanted(labels_at_once=self._rules.unavailable_labels)

    async def poll(self) -> None:
        """Look at --model_config_file again and again, until cancelled, as often as the settings say."""
        wait = self._settings.model_config_file_poll_wait_seconds
        if not self._settings.model_config_file or wait <= 0:
            return
        while True:
            try:
                await self.look()
            except Exception:
                # A fault of ours in one reading must not end the readings.
                logger.exception("reading %s failed", self._settings.model_config_file)
            await asyncio.sleep(wait)

    async def look(self) -> None:
        """Apply the file if its content changed since it was looked at last. Labels wait for their versions."""
        configuration = await asyncio.to_thread(from_file, self._settings.model_config_file, self._rules)
        if _identity(configuration) == self._seen:
            return
        async with self._lock:
            try:
                await self._take(await self._following(configuration))
            except BridgeError as error:
                logger.error("cannot apply %s now: %s", self._settings.model_config_file, error.message)
            else:
                self._seen = _identity(configuration)

    async def refresh(self) -> None:
        """Serve what the registry says now: somebody else may have changed it."""
        async with self._lock:
            await self._apply_wanted()

    async def _take(self, configuration: Configuration) -> None:
        if configuration.error is not None:
            await self._reject(START, configuration, POLLER)
        else:
            await self._apply(START, configuration, POLLER)
            await self._apply_wanted()

    async def _following(self, configuration: Configuration) -> Configuration:
        """`configuration`, with an error if it may not follow the current one."""
        current = await self._thread.call(self._registry.current_config)
        return configuration if current is None else after(current.text, configuration)

    async def reload(self, config: ModelServerConfig, actor: Actor, timeout: float | None) -> None:
        """Serve what a client lists; return once every new model serves.

        Raises BridgeError when the configuration is refused or a new model does not come to serve within `timeout`
        seconds (None: no deadline) and --reload_timeout_seconds: configuration, labels and serving stay as before.
        """
        started = time.monotonic()
        async with self._lock:
            plane = self._require_plane()
            configuration = requested(config, plane, self._rules)
            await self._check_versions(configuration)
            new = [model for model in configuration.models if plane.platform(model.name) is None]
            await self._thread.call(self._registry.introduce_models, new, Owner.CONFIG, actor)
            trial = Trial(plane, new)
            try:
                await trial.run(self._patience(timeout, time.monotonic() - started))
            except BaseException as error:
                trial.cancel(error)
                raise
            await _to_the_end(self._make_wanted(configuration, actor, trial))

    async def _make_wanted(self, configuration: Configuration, actor: Actor, trial: Trial) -> None:
        try:
            await self._apply(CLIENT, configuration, actor, polled=False)
        except BaseException as error:
            trial.cancel(error)
            raise
        trial.keep()
        await self.follow(labels_at_once=True)

    def alone(self) -> asyncio.Lock:
        """Held while the configuration changes; whoever holds it keeps it as it is."""
        return self._lock

    async def follow(self, *, labels_at_once: bool = False) -> None:
        """What is wanted is in the database: it is applied, whenever that can be read again."""
        backoff = Backoff()
        while True:
            try:
                return await self._apply_wanted(labels_at_once=labels_at_once)
            except Unavailable as error:
                logger.error("the new configuration waits for the database: %s", error.message)
                await asyncio.sleep(backoff.pause())

    def _patience(self, timeout: float | None, waited: float) -> float | None:
        limits = [float(self._settings.reload_timeout_seconds)] if self._settings.reload_timeout_seconds > 0 else []
        if timeout is not None:
            limits.append(max(0.0, timeout - waited - DEADLINE_MARGIN))
        return min(limits, default=None)

    async def _check_versions(self, configuration: Configuration) -> None:
        if rules(self._settings, configuration.text).fail_when_empty:
            await asyncio.to_thread(check_versions, configuration.models)

    async def _apply(self, origin: str, configuration: Configuration, actor: Actor, *, polled: bool = True) -> None:
        applied = await self._thread.call(
            self._registry.apply_config,
            origin,
            configuration.content_hash,
            configuration.text,
            configuration.models,
            actor,
            takeover=self._settings.config_takeover,
            polled=polled,
        )
        if applied.applied:
            logger.info("configuration revision %s: %d models", applied.revision, len(configuration.models))
        elif applied.reason == "superseded":
            logger.warning(
                "the configuration of this start was replaced by a newer one before and is not applied again; "
                "--config_takeover applies it"
            )

    async def _reject(self, origin: str, configuration: Configuration, actor: Actor) -> None:
        error = configuration.error
        assert error is not None
        if await self._thread.call(self._registry.current_config) is not None:
            logger.error("the configuration is refused, the last good one stays: %s", error.message)
        await self._thread.call(
            self._registry.reject_config,
            origin,
            configuration.content_hash,
            configuration.text,
            error.message,
            actor,
        )

    async def _need_some(self, configuration: Configuration | None) -> None:
        if await self._thread.call(self._registry.current_config) is not None:
            return
        if configuration is None and self._settings.modelmesh_port:
            return
        if configuration is None or configuration.error is None:
            raise InvalidArgument("nothing to serve: give --model_base_path or --model_config_file")
        raise configuration.error

    def _require_plane(self) -> ControlPlane:
        if self._plane is None:
            raise Unavailable("Another bridge decides what is served.")
        return self._plane

    async def _apply_wanted(self, *, labels_at_once: bool = False) -> None:
        if self._plane is None:
            return
        current = await self._thread.call(self._registry.current_config)
        self._plane.watch_by(rules(self._settings, current.text if current else ""))
        self._plane.apply(await self._thread.call(self._registry.models), labels_at_once=labels_at_once)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`, which a client that goes away does not break off half done."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


def _identity(configuration: Configuration) -> tuple[str, str]:
    error = configuration.error
    return configuration.content_hash, f"{Code(error.code).name}: {error.message}" if error else ""
