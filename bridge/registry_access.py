"""The registry as a server uses it: opened and migrated, on its thread, with the recorder of what is observed."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from pathlib import Path

from bridge import __version__
from bridge.errors import InvalidArgument
from bridge.lifecycle.configurator import STARTER
from bridge.lifecycle.heartbeat import Heartbeat
from bridge.lifecycle.integrity_operations import IntegrityOperations
from bridge.lifecycle.observations import Observations
from bridge.lifecycle.recorder import Recorder
from bridge.parts import Parts
from bridge.registry import upgrader
from bridge.registry.database import sqlite_url
from bridge.registry.events import ServerStarted, ServerStopped
from bridge.registry.integrity import Integrity
from bridge.registry.records import Problem, Version
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import VersionState
from bridge.settings import Settings, describe
from bridge.state_dir import StateDir

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0


class RegistryAccess:
    """`served` are the versions that an earlier process left AVAILABLE, `problem_paths` what was wrong with models."""

    def __init__(self, registry: Registry, thread: RegistryThread) -> None:
        self.registry = registry
        self.thread = thread
        self.recorder = Recorder(thread.call)
        self.observations = Observations(registry, self.recorder)
        self.heartbeat = Heartbeat(registry, thread, STARTER)
        self.served: dict[str, set[int]] = {}
        self.problem_paths: dict[str, list[str]] = {}
        self.owner = ""
        """Whose instances end with this process, where other bridges have some as well."""

    @classmethod
    async def open(cls, settings: Settings, state: StateDir, parts: Parts) -> RegistryAccess:
        """Open the database and, unless other bridges may use it, take over from an earlier process.

        Raises BridgeError.
        """
        registry = await asyncio.to_thread(_open, settings, state)
        parts.on_close_call(registry.close)
        thread = RegistryThread()
        parts.on_close_call(thread.close)
        access = cls(registry, thread)
        await access.heartbeat.begin(replica_name(settings, state))
        parts.spawn(access.heartbeat.run(), "heartbeat")
        if not registry.shared:
            await access.take_over()
        await thread.call(registry.append, ServerStarted(__version__, describe(settings)), STARTER)
        return access

    def led(self, registry: Registry) -> RegistryAccess:
        """The access of one term of a leader, which writes by `registry`."""
        return RegistryAccess(registry, self.thread)

    async def take_over(self) -> None:
        """End the life of whoever decided before, and learn what was left. Raises BridgeError."""
        await self.learn()
        await self.thread.call(self.registry.end_of_process, STARTER)

    async def learn(self) -> None:
        """Learn what whoever decided before left. Raises BridgeError."""
        self.served = _served(await self.thread.call(self.registry.versions))
        self.problem_paths = _problem_paths(await self.thread.call(self.registry.problems))

    async def record_end(self, cause: str) -> None:
        """The last words in the history, if the database still listens."""
        self.recorder.record(self.heartbeat.end)
        if not self.registry.shared:
            self.recorder.record(self.registry.end_of_process, STARTER)
        elif self.owner:
            self.recorder.record(self.registry.end_of_owner, self.owner, STARTER)
        self.recorder.record(self.registry.append, ServerStopped(cause), STARTER)
        if not await self.recorder.flush(FLUSH_SECONDS):
            logger.warning("the registry is away: the end of this server is not recorded")


def _open(settings: Settings, state: StateDir) -> Registry:
    url, key = _database_url(settings, state), _audit_key(settings)
    upgrader.upgrade(url, migrate=settings.migrate, audit_key=key)
    origin = replica_name(settings, state)
    return Registry.open(url, deployment_id=settings.deployment_id or None, audit_key=key, origin=origin)


def replica_name(settings: Settings, state: StateDir) -> str:
    """What this bridge is called among those on one database; it stays with the state directory."""
    return settings.replica_name or f"{socket.gethostname()}-{state.identity()}"


def integrity_operations(settings: Settings, state: StateDir) -> IntegrityOperations:
    """What is asked of the history's integrity, beside the registry. Raises InvalidArgument."""
    return IntegrityOperations(Integrity(_database_url(settings, state), _audit_key(settings)))


def _database_url(settings: Settings, state: StateDir) -> str:
    return settings.database_url or sqlite_url(state.database_path)


def _audit_key(settings: Settings) -> bytes | None:
    path = settings.audit_key_file
    if not path:
        return None
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise InvalidArgument(f"--audit_key_file={path} cannot be read: {error.strerror}") from error


def _problem_paths(problems: Iterable[Problem]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for problem in problems:
        kind, _, model = problem.subject.partition(":")
        if kind == "model":
            paths.setdefault(model, []).append(problem.path)
    return paths


def _served(versions: Iterable[Version]) -> dict[str, set[int]]:
    served: dict[str, set[int]] = {}
    for version in versions:
        if version.state == VersionState.AVAILABLE:
            served.setdefault(version.model, set()).add(version.version)
    return served
