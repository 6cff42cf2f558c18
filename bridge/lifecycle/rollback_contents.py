"""Finds the contents that a rollback needs, by their fingerprints, and brings them where they are kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from functools import partial

from bridge.clock import Clock
from bridge.errors import BridgeError, FailedPrecondition
from bridge.lifecycle.contents import Contents
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.rollback_plan import ContentCheck
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import PinnedContent
from bridge.registry.thread import RegistryThread
from model_repo_sync.kept import KeptContent
from model_repo_sync.object_store import local_path
from model_repo_sync.transfer import TransferError

_SHOWN = 12
"""Digits of a fingerprint in a sentence."""

Stored = Callable[[str, int], str | None]
"""Where the content of a model's version lies in a model repository now, None where it does not."""


class RollbackContents:
    """Looks where contents are kept first, then in the model repository, then where they came from."""

    def __init__(
        self,
        registry: Registry,
        thread: RegistryThread,
        contents: Contents,
        downloads: Downloads,
        stored: Stored,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._thread = thread
        self._contents = contents
        self._downloads = downloads
        self._stored = stored
        self._clock = clock

    async def check(self, model: str, content: PinnedContent) -> ContentCheck:
        """Where the content is now. What lies in an object store is looked at only when it is brought."""
        check = partial(ContentCheck, content.version, content.fingerprint, content.path)
        cannot = f"Version {content.version} of model '{model}' cannot be put back:"
        if not content.fingerprint:
            return check("", f"{cannot} nobody knows what it held, since its files were never read to their end.")
        kept = await self._contents.find(model, content.version, content.fingerprint)
        if kept is not None:
            return check(kept)
        problem = f"its files at {content.path} are gone"
        for path in await self._places(model, content):
            local = local_path(path)
            if local is None:
                return check(path)
            found = await self._fingerprint(local)
            if found == content.fingerprint:
                return check(path)
            if found and path == content.path:
                problem = f"the files at {path} were changed ({_short(found)} instead of {_short(content.fingerprint)})"
        return check("", f"{cannot} {problem}, and the content of then is not kept.")

    async def bring(self, model: str, checked: Iterable[ContentCheck]) -> None:
        """Have every content where it is kept. Raises FailedPrecondition, and LoadFailure where a store is away."""
        for check in checked:
            kept = self._contents.path(model, check.version, check.fingerprint)
            if check.place != kept:
                await self._bring(model, check)

    async def let_go(self, model: str) -> None:
        """What was brought for a rollback that did not come about need not be kept."""
        await self._contents.prune(model)

    async def _bring(self, model: str, check: ContentCheck) -> None:
        cannot = f"Version {check.version} of model '{model}' cannot be put back:"
        try:
            directory = await self._downloads.fetch(check.place)
            found = await self._fingerprint(directory)
            if found != check.fingerprint:
                raise FailedPrecondition(
                    f"{cannot} the files at {check.place} were changed ({_short(found)} instead of "
                    f"{_short(check.fingerprint)}), and the content of then is not kept."
                )
            kept = KeptContent(model, check.version, check.fingerprint, check.path, self._clock.now())
            await self._contents.hold(kept, directory)
        except FileNotFoundError as error:
            raise FailedPrecondition(
                f"{cannot} its files at {check.place} are gone, and the content of then is not kept."
            ) from error
        except TransferError as error:
            raise FailedPrecondition(f"{cannot} {error}") from error
        finally:
            await self._downloads.discard(check.place)

    async def _places(self, model: str, content: PinnedContent) -> list[str]:
        """Where the content may lie, each place once."""
        known = await self._thread.call(self._registry.provenance, model, content.version)
        came_from = [item.path for item in known if item.fingerprint == content.fingerprint]
        stored = self._stored(model, content.version)
        places = [stored or "", content.path, *came_from, await self._configured(model, content.version)]
        return [path for path in dict.fromkeys(places) if path]

    async def _configured(self, model: str, version: int) -> str:
        """Where the base path of now has a version of that number, in the plainest spelling."""
        try:
            return os.path.join((await self._thread.call(self._registry.model, model)).base_path, str(version))
        except BridgeError:
            return ""

    async def _fingerprint(self, directory: str) -> str:
        """The fingerprint of what lies in a directory, empty where there is nothing that can be read."""
        if not await asyncio.to_thread(os.path.isdir, directory):
            return ""
        try:
            return (await self._contents.read(directory)).sha256
        except OSError:
            return ""


def _short(fingerprint: str) -> str:
    return f"{fingerprint[:_SHOWN]}…" if fingerprint else "nothing that can be read"
