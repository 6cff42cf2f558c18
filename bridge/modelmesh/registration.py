"""One registration of a model, and how its files become something that instances serve."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import ExitStack, asynccontextmanager

from bridge.errors import BridgeError, Code
from bridge.lifecycle.servable import Placeable, Servable
from bridge.lifecycle.triton_model import TritonModel
from bridge.placement.model import Loadable
from bridge.registry.records import RegisteredModel
from bridge.triton.instance import FailureKind, LoadFailure
from model_repo_sync import model_types, names, triton_config
from model_repo_sync.model_types import ModelTypeError, ResolvedModel
from model_repo_sync.saved_model import SavedModelError, read_saved_model
from model_repo_sync.storage import Storage, StorageUnavailable

logger = logging.getLogger(__name__)

Prepare = Callable[[RegisteredModel, str, ExitStack], Placeable]
"""Reads the files of a registered model for a Triton name; they are there until the stack is closed. It blocks.

Raises BridgeError for the model's faults, LoadFailure for the platform's.
"""


def preparer(options: triton_config.RunnerOptions, tags: tuple[str, ...], storage: Storage) -> Prepare:
    """How models in `storage` are read; `tags` name the MetaGraph of SavedModels."""

    def prepare(model: RegisteredModel, triton_name: str, files: ExitStack) -> Placeable:
        try:
            resolved = files.enter_context(model_types.resolved(model.info, storage))
            if resolved.kind == model_types.TENSORFLOW:
                return servable(model, triton_name, resolved)
            prepared = resolved.prepare(triton_name)
            return TritonModel(model.id, resolved.version, triton_name, resolved.path, prepared, prepared.bytes)
        except ModelTypeError as error:
            raise BridgeError(str(error), Code.NOT_FOUND if error.missing else Code.INVALID_ARGUMENT) from error
        except SavedModelError as error:
            raise BridgeError(error.message, Code(error.code)) from error
        except StorageUnavailable as error:
            raise LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, str(error)) from error

    def servable(model: RegisteredModel, triton_name: str, resolved: ResolvedModel) -> Servable:
        saved_model = read_saved_model(resolved.path, tags)
        config = triton_config.generate(triton_name, saved_model, options)
        return Servable(model.id, resolved.version, triton_name, saved_model, config)

    return prepare


class Registration:
    """The content of a registered model as instances load it; `servable` is what was read last."""

    def __init__(self, model: RegisteredModel, deployment: str, prepare: Prepare, executor: Executor) -> None:
        self.model = model
        self.triton_name = names.registered_name(deployment, model.id, model.generation)
        self.servable: Placeable | None = None
        self._prepare = prepare
        self._executor = executor

    @asynccontextmanager
    async def prepared(self) -> AsyncIterator[Placeable]:
        """The model with its files as they are now, which are on this machine until the end.

        Raises BridgeError for the model's faults, LoadFailure for the platform's.
        """
        loop = asyncio.get_running_loop()
        files = ExitStack()
        read = loop.run_in_executor(self._executor, self._prepare, self.model, self.triton_name, files)
        try:
            self.servable = await asyncio.shield(read)
            yield self.servable
        finally:
            # A thread cannot be cancelled: what it brings after that is given back as well.
            read.add_done_callback(lambda read: self._give_back(files, read))

    def _give_back(self, files: ExitStack, read: asyncio.Future[Placeable]) -> None:
        if not read.cancelled() and (error := read.exception()) is not None:
            logger.debug("model %s was not read: %s", self.model.id, error)
        read.get_loop().run_in_executor(self._executor, files.close)

    def loadable(self) -> Loadable:
        """The registration as placement sees it."""
        info = self.model.info
        return Loadable(self.model.id, self.model.generation, info.type, model_types.predicted_size(info), self)


def registration(model: Loadable) -> Registration:
    """What `Registration.loadable` made the loadable of."""
    assert isinstance(model.content, Registration)
    return model.content
