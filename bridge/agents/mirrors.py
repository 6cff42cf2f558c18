"""What the agents of instances have of their repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import TypeVar

from bridge.errors import Code, FailedPrecondition, NotFound
from bridge.triton.instance import FailureKind, LoadFailure
from model_repo_sync import mirror
from model_repo_sync.mirror import MirroredModel
from model_repo_sync.repository import ModelRepository

_T = TypeVar("_T")


class Mirrors:
    """The repositories of instances, by their names, and the digests that their agents said last."""

    def __init__(self, deployment: str, executor: Executor) -> None:
        self.deployment = deployment
        self._executor = executor
        self._repositories: dict[str, ModelRepository] = {}
        self._held: dict[str, Mapping[str, str]] = {}
        self._news = asyncio.Event()

    def add(self, instance: str, repository: ModelRepository) -> None:
        """The instance's agent is to copy this repository."""
        self._repositories[instance] = repository

    async def exchange(self, instance: str, held: Mapping[str, str]) -> Mapping[str, MirroredModel]:
        """An agent has `held`, digests by names; what it should have. Raises NotFound, OSError."""
        repository = self._repository(instance)
        self._held[instance] = held
        self._news.set()
        self._news = asyncio.Event()
        return await self._in_thread(mirror.look_at_all, repository)

    async def file(self, instance: str, model: str, digest: str, path: str) -> Path:
        """Where a file of a model of that digest lies. Raises NotFound, FailedPrecondition, OSError."""
        repository = self._repository(instance)
        if model not in await self._in_thread(repository.names):
            raise NotFound(f"instance {instance} has no model {model}")
        directory = repository.path / model
        found = await self._in_thread(mirror.look, directory)
        if found.digest != digest:
            raise FailedPrecondition(f"model {model} is another one by now")
        if path not in found.files:
            raise NotFound(f"model {model} has no file {path}")
        return directory / path

    async def deliver(self, instance: str, model: str, seconds: float) -> None:
        """Return when the agent has the model as it is in the repository. Raises LoadFailure after `seconds`."""
        try:
            wanted = await self._in_thread(mirror.look, self._repository(instance).path / model)
            async with asyncio.timeout(seconds):
                while self._held.get(instance, {}).get(model) != wanted.digest:
                    await self._news.wait()
        except FileNotFoundError as error:
            sentence = f"{model} left the repository of instance {instance}"
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, sentence) from error
        except TimeoutError as error:
            said = "has not taken" if instance in self._held else "never asked, and so did not take"
            sentence = f"the agent of instance {instance} {said} {model} within {seconds:g} s"
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, sentence) from error

    def _repository(self, instance: str) -> ModelRepository:
        repository = self._repositories.get(instance)
        if repository is None:
            known = ", ".join(sorted(self._repositories))
            raise NotFound(f"there is no instance {instance} with an agent; known ones: {known}")
        return repository

    async def _in_thread(self, function: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
