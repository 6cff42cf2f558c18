"""One registration of a model, and how its files become a servable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from bridge.errors import BridgeError, Code
from bridge.lifecycle.servable import Servable
from bridge.placement.model import Loadable
from bridge.registry.records import RegisteredModel
from model_repo_sync import model_types, names, triton_config
from model_repo_sync.model_types import ModelTypeError
from model_repo_sync.saved_model import SavedModelError, read_saved_model

Prepare = Callable[[RegisteredModel, str], Servable]
"""Reads the files of a registered model for a Triton name; it blocks. Raises BridgeError for the model's faults."""


def preparer(options: triton_config.RunnerOptions, tags: tuple[str, ...], root: str) -> Prepare:
    """How models below the directory `root` are read; `tags` name the MetaGraph of SavedModels."""

    def prepare(model: RegisteredModel, triton_name: str) -> Servable:
        try:
            resolved = model_types.resolve(model.info, root)
            saved_model = read_saved_model(resolved.path, tags)
            config = triton_config.generate(triton_name, saved_model, options)
        except ModelTypeError as error:
            raise BridgeError(str(error), Code.NOT_FOUND if error.missing else Code.INVALID_ARGUMENT) from error
        except SavedModelError as error:
            raise BridgeError(error.message, Code(error.code)) from error
        return Servable(model.id, resolved.version, triton_name, saved_model, config)

    return prepare


class Registration:
    """The content of a registered model as instances load it; `servable` is what was read last."""

    def __init__(self, model: RegisteredModel, deployment: str, prepare: Prepare, executor: Executor) -> None:
        self.model = model
        self.triton_name = names.registered_name(deployment, model.id, model.generation)
        self.servable: Servable | None = None
        self._prepare = prepare
        self._executor = executor

    async def prepare(self) -> Servable:
        """Read the model's files as they are now. Raises BridgeError."""
        loop = asyncio.get_running_loop()
        self.servable = await loop.run_in_executor(self._executor, self._prepare, self.model, self.triton_name)
        return self.servable

    def loadable(self) -> Loadable:
        """The registration as placement sees it."""
        info = self.model.info
        return Loadable(self.model.id, self.model.generation, info.type, model_types.predicted_size(info), self)


def registration(model: Loadable) -> Registration:
    """What `Registration.loadable` made the loadable of."""
    assert isinstance(model.content, Registration)
    return model.content
