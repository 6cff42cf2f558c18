"""The contents of versions: read byte for byte beside their loads, never before them, and kept for a way back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Protocol

from bridge.clock import Clock
from bridge.errors import Unavailable
from bridge.lifecycle.content_watch import ContentWatch
from bridge.lifecycle.observations import RECONCILE
from bridge.lifecycle.recorder import Recorder
from bridge.lifecycle.servable import Servable
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import Provenance
from bridge.registry.thread import RegistryThread
from model_repo_sync.content import Content, ContentReader, FileDigest
from model_repo_sync.kept import KeptContent, KeptContents
from model_repo_sync.saved_model_files import fingerprint
from model_repo_sync.sources import VersionDirectory
from model_repo_sync.transfer import TransferError

logger = logging.getLogger(__name__)

Needs = Callable[[str, int], bool]
"""Whether a model's version is loading, serving, unloading, or held by a rollback."""


class VersionContents(Protocol):
    """What the control plane asks of and tells about contents."""

    def path(self, model: str, version: int, sha256: str) -> str:
        """Where a kept content lies, or would lie."""

    async def loaded(self, servable: Servable, stored: str | None, path: str) -> None:
        """A version serves that came from `path`; its copy in a model repository is `stored`."""

    async def registered(self, servable: Servable, generation: int, stored: str) -> None:
        """A registered model has a copy, which lies in a model repository at `stored`."""

    async def retired(self, servable: Servable) -> None:
        """A version serves no more."""

    async def changed(self, model: str, versions: Sequence[VersionDirectory]) -> Mapping[str, str]:
        """Sentences by path of what does not hold any more what was loaded from it."""

    def stop(self) -> None:
        """Read nothing more."""


class NoContents:
    """Nothing is known of contents, and none is kept."""

    def path(self, model: str, version: int, sha256: str) -> str:
        return ""

    async def loaded(self, servable: Servable, stored: str | None, path: str) -> None:
        return None

    async def registered(self, servable: Servable, generation: int, stored: str) -> None:
        return None

    async def retired(self, servable: Servable) -> None:
        return None

    async def changed(self, model: str, versions: Sequence[VersionDirectory]) -> Mapping[str, str]:
        return {}

    def stop(self) -> None:
        return None


class Contents:
    """Reads on `executor`, which serves nothing else: a large model takes as long as its disk needs.

    The last `count` contents of each model that served are kept, besides those that are needed.
    """

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        recorder: Recorder,
        kept: KeptContents,
        watch: ContentWatch,
        reader: ContentReader,
        executor: Executor,
        clock: Clock,
        *,
        count: int,
    ) -> None:
        self._registry = registry
        self._thread = thread
        self._recorder = recorder
        self._kept = kept
        self._watch = watch
        self._reader = reader
        self._executor = executor
        self._clock = clock
        self._count = count
        self._needs: Needs = lambda model, version: True
        self._registered: set[str] = set()
        self._alone = asyncio.Lock()

    def keep_if(self, needs: Needs) -> None:
        """Say which versions' contents are kept in any case."""
        self._needs = needs

    def stop(self) -> None:
        self._reader.stop()
        self._watch.stop()

    def path(self, model: str, version: int, sha256: str) -> str:
        return self._kept.path(model, version, sha256)

    async def loaded(self, servable: Servable, stored: str | None, path: str) -> None:
        """Read the content of a version that serves, record it, and keep it."""
        model, version = servable.model, servable.version
        async with self._alone:
            known = await self._known(model, version)
            try:
                content = await self._in_thread(self._read, servable, stored, known)
            except OSError as error:
                logger.warning("the content of %s cannot be read: %s", servable, error)
                return
            provenance = _provenance(servable, content, path, self._origin(servable, stored, content, known))
            self._recorder.record(self._registry.record_provenance, provenance, actor=RECONCILE)
            self._watch.begin(provenance)
            if stored is not None and self._count > 0:
                await self._keep(provenance, stored)
            await self._prune(model)

    async def registered(self, servable: Servable, generation: int, stored: str) -> None:
        """Read the content of a registered model once for each registration, whose generation counts as its version."""
        if servable.triton_name in self._registered:
            return
        self._registered.add(servable.triton_name)
        async with self._alone:
            if await self._known(servable.model, generation):
                return
            try:
                content = await self._in_thread(self._reader.read, stored)
            except OSError as error:
                logger.info("the content of %s cannot be read: %s", servable, error)
                return
            self._reader.forget(stored)
            seen = replace(_provenance(servable, content, servable.source, None), version=generation)
            self._recorder.record(self._registry.record_provenance, seen, actor=RECONCILE)

    async def retired(self, servable: Servable) -> None:
        """Note until when a version served, which decides what is kept."""
        provenance = self._watch.end(servable.model, servable.version)
        if provenance is None:
            return
        async with self._alone:
            kept = await self._in_thread(self._kept.find, servable.model, servable.version, provenance.fingerprint)
            if kept is not None:
                await self._keep(provenance, self._kept.path(servable.model, servable.version, provenance.fingerprint))
            await self._prune(servable.model)

    async def changed(self, model: str, versions: Sequence[VersionDirectory]) -> Mapping[str, str]:
        return await self._watch.changed(model, versions)

    async def read(self, directory: str) -> Content:
        """What lies in a directory now. Raises OSError."""
        content: Content = await self._in_thread(self._reader.read, directory)
        return content

    async def find(self, model: str, version: int, sha256: str) -> str | None:
        """Where a content is kept, as it was; None where it is not, or was changed since."""
        kept = await self._in_thread(self._kept.find, model, version, sha256)
        path = self.path(model, version, sha256)
        try:
            return path if kept is not None and (await self.read(path)).sha256 == sha256 else None
        except OSError:
            return None

    async def hold(self, content: KeptContent, directory: str) -> None:
        """Keep what lies in `directory`. Raises TransferError."""
        async with self._alone:
            await self._in_thread(lambda: self._kept.keep(content, directory, own=False))

    async def prune(self, model: str) -> None:
        """Let go of what is kept of a model and not needed any more."""
        async with self._alone:
            await self._prune(model)

    async def _known(self, model: str, version: int) -> Sequence[Provenance]:
        try:
            return await self._thread.call(self._registry.provenance, model, version)
        except Unavailable:
            # More is read then, and written once the database is back.
            return ()

    def _read(self, servable: Servable, stored: str | None, known: Sequence[Provenance]) -> Content:
        for item in known:
            self._reader.remember(item.path, [FileDigest(*file) for file in item.files])
        try:
            content = self._reader.read(servable.source)
            if fingerprint(servable.source) == servable.saved_model.fingerprint:
                return content
        except OSError:
            if stored is None:
                raise
        # The source is not any more what was loaded from it; the model repository is.
        return self._reader.read(stored or servable.source)

    def _origin(
        self, servable: Servable, stored: str | None, content: Content, known: Sequence[Provenance]
    ) -> Provenance | None:
        """Where a content came from at first that was loaded from where we keep it."""
        ours = (stored, self._kept.path(servable.model, servable.version, content.sha256))
        if servable.source not in ours:
            return None
        return next((item for item in known if item.fingerprint == content.sha256), None)

    async def _keep(self, provenance: Provenance, directory: str) -> None:
        kept = KeptContent(
            provenance.model,
            provenance.version,
            provenance.fingerprint,
            provenance.path,
            self._clock.now(),
        )
        try:
            await self._in_thread(lambda: self._kept.keep(kept, directory, own=True))
        except TransferError as error:
            logger.warning("a rollback to this content will need its source: %s", error)

    async def _prune(self, model: str) -> None:
        removed = await self._in_thread(
            self._kept.prune, model, self._count, lambda kept: self._needs(model, kept.version)
        )
        for kept in removed:
            logger.info("the content of model %s version %d is not kept any longer", model, kept.version)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)


def _provenance(servable: Servable, content: Content, path: str, origin: Provenance | None) -> Provenance:
    saved_model = servable.saved_model
    return Provenance(
        model=servable.model,
        version=servable.version,
        identity=saved_model.fingerprint,
        fingerprint=content.sha256,
        path=origin.path if origin else path,
        size=content.bytes,
        tensorflow=content.tensorflow,
        signatures=tuple(sorted(saved_model.signatures)),
        files=origin.files if origin else content.files,
    )
