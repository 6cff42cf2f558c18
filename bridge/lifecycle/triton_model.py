"""A model that one of Triton's own backends serves, which can be put on any instance."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.serving.routes import V2Route
from model_repo_sync import model_types
from model_repo_sync.prepared_model import PreparedModel
from model_repo_sync.repository import ModelRepository


@dataclass(frozen=True)
class TritonModel:
    """A model as Triton serves it, whose files come from `source` and have `bytes` together."""

    model: str
    version: int
    triton_name: str
    source: str
    prepared: PreparedModel
    bytes: int

    def __str__(self) -> str:
        return f"{{name: {self.model} version: {self.version}}}"

    @property
    def expected_bytes(self) -> int:
        """A guess by the size of its files."""
        return int(self.bytes * model_types.SIZE_FACTOR)

    def write(self, repository: ModelRepository) -> bool:
        """Put it into a repository; whether just that was not there. Raises OSError, TransferError."""
        return repository.write_prepared(self.triton_name, self.source, self.prepared).changed

    def route(self, instances: tuple[str, ...]) -> V2Route:
        """The route while `instances` hold a loaded copy. What runs inside may have state."""
        return V2Route(self.model, self.triton_name, instances, stateful=True)
