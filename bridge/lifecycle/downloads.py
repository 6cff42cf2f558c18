"""Versions that lie in object stores, brought to this machine before they load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import TypeVar

from bridge.errors import BridgeError, Code
from bridge.triton.instance import FailureKind, LoadFailure
from model_repo_sync.object_store import NameRefused, StoreUnusable, local_path
from model_repo_sync.source_cache import DownloadError, SourceCache
from model_repo_sync.sources import Scanner

_T = TypeVar("_T")


class Downloads:
    """Copies in `cache`. Everything that may wait for a store runs on `executor`, which serves nothing else."""

    def __init__(self, cache: SourceCache, executor: Executor) -> None:
        self.executor = executor
        self._cache = cache

    def scanner(self) -> Scanner:
        """A scanner whose looks at object stores leave what they had to read in the cache."""
        return Scanner(self._cache)

    async def fetch(self, path: str) -> str:
        """The local path of a version directory; what lies on this machine stays where it is.

        Raises LoadFailure of kind PLATFORM while the store does not answer or there is no room, FileNotFoundError when
        the store has no such version any more, BridgeError when its objects cannot be files.
        """
        local = local_path(path)
        if local is not None:
            return local
        try:
            return await self._run(self._cache.fetch, path)
        except FileNotFoundError:
            raise
        except NameRefused as error:
            raise BridgeError(f"{path} {error}", Code.FAILED_PRECONDITION) from error
        except (OSError, StoreUnusable, DownloadError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            sentence = f"{path} could not be downloaded: {reason}"
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, sentence) from error

    def hold(self, local: str) -> None:
        """Keep the copy that `fetch` gave until it is released."""
        self._cache.hold(local)

    async def release(self, local: str) -> None:
        """Nobody will write this copy into a repository any more."""
        await self._run(self._cache.release, local)

    async def discard(self, path: str) -> None:
        """A version ended in error: its copy goes unless another model holds it."""
        if local_path(path) is None:
            await self._run(self._cache.discard, self._cache.path_of(path))

    async def forget_other_bases(self, base_paths: Collection[str]) -> None:
        """Remove what was left of base paths that are not configured any more."""
        await self._run(self._cache.forget_other_bases, [path for path in base_paths if local_path(path) is None])

    async def _run(self, function: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self.executor, function, *args)
