"""The admin port over a real SQLite registry, on an event loop in a thread. The control plane is a stand-in."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import urlencode

from bridge.access.gate import Gate
from bridge.access.http_gate import GatedApp
from bridge.access.methods import ADMIN
from bridge.console.admin import admin_app
from bridge.console.front import Denied, Front
from bridge.console.pages.renderer import Renderer
from bridge.console.sessions import Sessions
from bridge.console.stream import Listeners
from bridge.http_server import HttpServer
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.integrity_operations import IntegrityOperations
from bridge.lifecycle.operations import Operations
from bridge.modelmesh.operations import ModelMeshOperations
from bridge.registry import schema
from bridge.registry.database import sqlite_url
from bridge.registry.integrity import Integrity
from bridge.registry.records import Actor, Model, ModelSpec, Owner
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import ModelRoute, VersionState, VersionStatus
from bridge.tfserving.ssl_config import ServerTls
from model_repo_sync.policy import Latest

T = TypeVar("T")

TEST = Actor("test", "CLI")


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class StandInPlane:
    """Says that `serving` are AVAILABLE, and assigns each wanted label of those."""

    def __init__(self) -> None:
        self.serving: dict[str, set[int]] = {}
        self.applied: list[tuple[Model, ...]] = []
        self.publisher = SimpleNamespace(routes=SimpleNamespace(models={}))

    def apply(self, records: Iterable[Model]) -> None:
        self.applied.append(tuple(records))
        self.publisher.routes.models = {record.name: self._route(record) for record in self.applied[-1]}

    def statuses(self, model: str) -> Mapping[int, VersionStatus]:
        return {
            version: VersionStatus(version, VersionState.AVAILABLE) for version in self.serving.get(model, frozenset())
        }

    def _route(self, record: Model) -> ModelRoute:
        serving = self.serving.get(record.name, frozenset())
        labels = {label: version for label, version in record.labels.items() if version in serving}
        return ModelRoute(record.name, {}, labels, ())


class StubHealth:
    def __init__(self) -> None:
        self.trouble: list[str] = []

    async def reasons(self) -> list[str]:
        return self.trouble


class StubMetrics:
    content_type = "text/plain; version=0.0.4"

    async def read(self) -> bytes:
        return b"bridge_up 1\n"


class AdminServer:
    """A running admin port."""

    def __init__(
        self, database: Path, *, local_only: bool = True, gate: Gate | None = None, tls: ServerTls | None = None
    ) -> None:
        url = sqlite_url(database)
        schema.upgrade(url)
        self.registry = Registry.open(url)
        self.plane = StandInPlane()
        self.health = StubHealth()
        self._thread = RegistryThread()
        operations = Operations(self.registry, self._thread, cast(ControlPlane, self.plane))
        vmodels = ModelMeshOperations(self.registry, self._thread)
        renderer = Renderer()
        needs: dict[str, Any] = {"needs": ADMIN, "denied": Denied(renderer)}
        gated = {} if gate is None else {"gate": partial(GatedApp, gate=gate, **needs)}
        integrity = IntegrityOperations(Integrity(url))
        self.listeners = Listeners()
        self.app = admin_app(
            *(operations, vmodels, self.health, StubMetrics(), integrity),
            local_only=local_only,
            listeners=self.listeners,
            **gated,
        )
        front = self.app if gate is None else Front(self.app, gate, Sessions(), renderer)
        self._http = HttpServer(front, tls.ssl_context() if tls else None)
        self._loop = asyncio.new_event_loop()
        self._loop_thread = threading.Thread(target=self._loop.run_forever)
        self._loop_thread.start()
        self.port = self._run(self._http.start, "127.0.0.1", 0)

    def add_model(self, name: str, *serving: int) -> None:
        """A model of the configuration whose versions `serving` are AVAILABLE."""
        spec = ModelSpec(name, f"/models/{name}", "tensorflow", Latest().to_json(), {})
        self.registry.put_model(spec, Owner.CONFIG, TEST)
        self.plane.serving[name] = set(serving)
        for version in serving:
            state, path = int(VersionState.AVAILABLE), f"/models/{name}/{version}"
            self.registry.record_version(name, version, state, path=path, fingerprint=f"f{version}", actor=TEST)

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own. `body` is sent as it is when it is bytes, else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, f"{path}?{urlencode(query)}" if query else path, data, dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, response.read(), found)
        finally:
            connection.close()

    def end_streams(self) -> None:
        self._loop.call_soon_threadsafe(self.listeners.close)

    def close(self) -> None:
        self._run(self._http.stop, 1.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop_thread.join()
        self._loop.close()
        self._thread.close()
        self.registry.close()

    def _run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        async def call() -> T:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)
