"""A version that was read from its directory and can be put on any instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from bridge.errors import BridgeError, Code
from bridge.serving.routes import Destination, ServableRoute, SignatureRoute, TensorRoute
from model_repo_sync import names, triton_config
from model_repo_sync.repository import ModelRepository
from model_repo_sync.saved_model import SavedModel, SavedModelError, Signature, TensorSpec, read_saved_model


class Placeable(Protocol):
    """What can be put on an instance: a version of a model as Triton serves it."""

    @property
    def model(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def triton_name(self) -> str: ...

    @property
    def source(self) -> str:
        """Where its files are."""
        ...

    @property
    def expected_bytes(self) -> int:
        """The memory that it takes if nobody there can be asked, 0 where the runner tells."""
        ...

    def write(self, repository: ModelRepository) -> bool:
        """Put it into a repository; whether just that was not there already.

        Raises OSError, TransferError, ConfigError.
        """
        ...

    def route(self, instances: tuple[str, ...]) -> Destination:
        """Where requests for it go while `instances` hold a loaded copy."""
        ...


@dataclass(frozen=True)
class Servable:
    """One version of one model with what Triton and the request path need of it.

    `config` is the text of config.pbtxt; `saved_model.path` is the source directory.
    """

    model: str
    version: int
    triton_name: str
    saved_model: SavedModel
    config: str

    @cached_property
    def signatures(self) -> Mapping[str, SignatureRoute]:
        """The signatures as the request path uses them."""
        return {name: _signature(item) for name, item in self.saved_model.signatures.items()}

    @property
    def source(self) -> str:
        """The SavedModel's directory."""
        return self.saved_model.path

    @property
    def expected_bytes(self) -> int:
        """Nothing: its runner tells what it takes."""
        return 0

    def write(self, repository: ModelRepository) -> bool:
        """Put it into a repository; whether just that was not there. Raises OSError, TransferError, ConfigError."""
        return repository.write(self.triton_name, self.source, self.config).changed

    def __str__(self) -> str:
        return f"{{name: {self.model} version: {self.version}}}"

    def route(self, instances: tuple[str, ...]) -> ServableRoute:
        """The route of this version while `instances` hold a loaded copy."""
        return ServableRoute(
            model=self.model,
            version=self.version,
            triton_name=self.triton_name,
            instances=instances,
            signatures=self.signatures,
            signature_def_map=self.saved_model.signature_def_map,
            stateful=self.saved_model.stateful,
        )


Prepare = Callable[[str, int, str], Servable]
"""Reads a version directory: model, version and path to a Servable. Raises BridgeError for the model's faults."""


def preparer(deployment: str, options: triton_config.RunnerOptions, tags: Sequence[str] = ("serve",)) -> Prepare:
    """How this deployment reads version directories; `tags` name the MetaGraph to serve."""

    def prepare(model: str, version: int, path: str) -> Servable:
        try:
            saved_model = read_saved_model(path, tags)
            name = names.servable_name(deployment, model, version)
            return Servable(model, version, name, saved_model, triton_config.generate(name, saved_model, options))
        except SavedModelError as error:
            raise BridgeError(error.message, Code(error.code)) from error

    return prepare


def _signature(signature: Signature) -> SignatureRoute:
    return SignatureRoute(
        name=signature.name,
        method_name=signature.method_name,
        inputs=_tensors(signature.inputs),
        outputs=_tensors(signature.outputs),
        defaults=signature.defaults,
        problem=signature.problem,
    )


def _tensors(specs: tuple[TensorSpec, ...]) -> tuple[TensorRoute, ...]:
    ordered = sorted(specs, key=lambda spec: spec.alias)
    return tuple(TensorRoute(spec.alias, spec.tensor, spec.dtype) for spec in ordered)
