"""Notices that other content lies where a version that serves was loaded from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from bridge.lifecycle.observations import POLLER
from bridge.lifecycle.recorder import Recorder
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import Provenance
from model_repo_sync.content import Content, ContentReader, FileDigest, is_unchanged
from model_repo_sync.object_store import local_path
from model_repo_sync.sources import VersionDirectory

logger = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None], str], None]


@dataclass
class _Watched:
    """`suspected` is what lay there at the last reading, `found` what was recorded of it; None for nothing else."""

    provenance: Provenance
    files: Sequence[FileDigest] = field(default_factory=tuple)
    suspected: str | None = None
    found: str | None = None
    reading: bool = False


class ContentWatch:
    """Compares the files' status at each look, on `looks`, and reads what changed on `reads`."""

    def __init__(
        self, registry: Registry, recorder: Recorder, reader: ContentReader, looks: Executor, reads: Executor
    ) -> None:
        self._registry = registry
        self._recorder = recorder
        self._reader = reader
        self._looks = looks
        self._reads = reads
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, provenance: Provenance) -> None:
        """A version serves what is described."""
        files = [FileDigest(*file) for file in provenance.files]
        self._watched[provenance.model, provenance.version] = _Watched(provenance, files)

    def end(self, model: str, version: int) -> Provenance | None:
        """A version serves no more; what it served, None if that was not known yet."""
        watched = self._watched.pop((model, version), None)
        return watched.provenance if watched else None

    def stop(self) -> None:
        """Read nothing more."""
        for task in self._tasks:
            task.cancel()

    async def changed(self, model: str, versions: Sequence[VersionDirectory]) -> Mapping[str, str]:
        """Sentences by path of versions on this machine that hold something else than what was loaded from there.

        What changes is read beside the looks, and believed once two readings agree: it might be half written.
        """
        here = [item for item in versions if local_path(item.path) is not None]
        found = [(item, self._watched.get((model, item.version))) for item in here]
        watched = [(item, known) for item, known in found if known and known.provenance.path == item.path]
        if not watched:
            return {}
        compared = await self._in_thread(self._looks, _compare, [known for _, known in watched])
        for (_, known), same in zip(watched, compared, strict=True):
            if same and (known.found or known.suspected):
                self._settle(known, known.provenance.fingerprint, known.provenance.size)
            elif not same and not known.reading:
                self._begin_reading(known)
        return {f"{item.path}#content": _sentence(known.provenance) for item, known in watched if known.found}

    def _begin_reading(self, watched: _Watched) -> None:
        watched.reading = True
        task = asyncio.create_task(self._read(watched), name=f"reading of {watched.provenance.path}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, watched: _Watched) -> None:
        try:
            content: Content = await self._in_thread(self._reads, self._reader.read, watched.provenance.path)
        except OSError as error:
            logger.debug("%s cannot be read now: %s", watched.provenance.path, error)
        else:
            if content.sha256 == watched.provenance.fingerprint:
                watched.files = content.files
            self._settle(watched, content.sha256, content.bytes)
        finally:
            watched.reading = False

    def _settle(self, watched: _Watched, sha256: str, size: int) -> None:
        """Record what lies there once it was seen twice, or is what was loaded."""
        provenance = watched.provenance
        other = None if sha256 == provenance.fingerprint else sha256
        if other in (None, watched.suspected) and other != watched.found:
            watched.found = other
            self._recorder.record(
                self._registry.record_found, provenance.model, provenance.version, sha256, size, actor=POLLER
            )
        watched.suspected = other

    async def _in_thread(self, executor: Executor, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(executor, function, *args)


def _compare(watched: Sequence[_Watched]) -> list[bool]:
    return [is_unchanged(item.provenance.path, item.files) for item in watched]


def _sentence(provenance: Provenance) -> str:
    return (
        f"{provenance.path} holds other content than version {provenance.version} of model {provenance.model}, which "
        "was loaded from there and serves on: new content needs a new version number."
    )
