"""The registry's database, opened by a command because no server lives that would."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from typing import Any, TypeVar

from bridge.cli.admin import JsonObject
from bridge.cli.db import Location
from bridge.console import vmodel_body
from bridge.lifecycle.operations import Operations
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.registry.records import Actor
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread

T = TypeVar("T")

SOURCE = "CLI"


class DatabaseAdmin:
    """Opens the database for each call. Changes hold the state directory, so that no server starts meanwhile.

    They wait in the registry for the next start of a server.
    """

    def __init__(self, location: Location, audit_key: bytes | None = None) -> None:
        self._location = location
        self._audit_key = audit_key

    def models(self, name: str | None = None) -> Sequence[JsonObject]:
        return self._list(lambda operations: operations.models(name))

    def versions(self, model: str | None = None) -> Sequence[JsonObject]:
        return self._list(lambda operations: operations.versions(model))

    def provenance(self, model: str, version: int | None) -> Sequence[JsonObject]:
        return self._list(lambda operations: operations.provenance(model, version))

    def labels(self, model: str | None = None) -> Sequence[JsonObject]:
        return self._list(lambda operations: operations.labels(model))

    def instances(self) -> Sequence[JsonObject]:
        return self._list(lambda operations: operations.instances())

    def events(self, subject: str | None, action: str | None, after: int, limit: int) -> Sequence[JsonObject]:
        return self._list(lambda operations: operations.events(subject, action, after, limit))

    def registered_models(self, id: str | None = None) -> Sequence[JsonObject]:
        with self._registry(exclusive=False) as (registry, thread):
            return [asdict(item) for item in asyncio.run(ModelMeshOperations(registry, thread).registered_models(id))]

    def vmodels(self, id: str | None = None) -> Sequence[JsonObject]:
        with self._registry(exclusive=False) as (registry, thread):
            return [asdict(item) for item in asyncio.run(ModelMeshOperations(registry, thread).vmodels(id))]

    def set_policy(self, model: str, policy: JsonObject, reason: str) -> bool:
        return self._change(lambda operations: operations.set_policy(model, policy, _actor(reason)))

    def set_label(self, model: str, label: str, version: int, reason: str) -> bool:
        return self._change(lambda operations: operations.set_label(model, label, version, _actor(reason)))

    def remove_label(self, model: str, label: str, reason: str) -> bool:
        return self._change(lambda operations: operations.remove_label(model, label, _actor(reason)))

    def unpin(self, model: str, reason: str) -> bool:
        return self._change(lambda operations: operations.unpin(model, _actor(reason)))

    def rollback_plan(self, subject: str, to: str) -> JsonObject:
        with self._operations(exclusive=False) as operations:
            return asdict(asyncio.run(operations.rollback_plan(subject, to)))

    def roll_back(self, subject: str, to: str, reason: str) -> JsonObject:
        with self._operations(exclusive=False) as operations:
            return asdict(asyncio.run(operations.roll_back(subject, to, _actor(reason))))

    def set_vmodel(self, id: str, wanted: JsonObject, reason: str) -> bool:
        request, _ = vmodel_body.read(id, wanted)
        with self._registry(exclusive=True) as (registry, thread):
            return asyncio.run(ModelMeshOperations(registry, thread).set_vmodel(request, _actor(reason)))

    def delete_vmodel(self, id: str, reason: str) -> bool:
        with self._registry(exclusive=True) as (registry, thread):
            return asyncio.run(ModelMeshOperations(registry, thread).delete_vmodel(id, _actor(reason)))

    def _list(self, call: Callable[[Operations], Coroutine[Any, Any, Sequence[Any]]]) -> Sequence[JsonObject]:
        with self._operations(exclusive=False) as operations:
            return [asdict(item) for item in asyncio.run(call(operations))]

    def _change(self, call: Callable[[Operations], Coroutine[Any, Any, bool]]) -> bool:
        with self._operations(exclusive=True) as operations:
            return asyncio.run(call(operations))

    @contextmanager
    def _operations(self, *, exclusive: bool) -> Iterator[Operations]:
        with self._registry(exclusive=exclusive) as (registry, thread):
            yield Operations(registry, thread)

    @contextmanager
    def _registry(self, *, exclusive: bool) -> Iterator[tuple[Registry, RegistryThread]]:
        self._location.require()
        with (
            self._location.exclusive() if exclusive else nullcontext(),
            closing(Registry.open(self._location.url, audit_key=self._audit_key)) as registry,
            closing(RegistryThread()) as thread,
        ):
            yield registry, thread


def _actor(reason: str) -> Actor:
    """Whoever runs the command."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return Actor(name, SOURCE, reason)
