"""What the control plane needs of whoever keeps registered models, which come and go on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bridge.serving.routes import RegisteredRoute, VModelRoute


class ModelCache(Protocol):
    """Routes for the snapshots, and ears for the request path's needs. Every call returns at once and never raises."""

    def registered_routes(self) -> Mapping[str, RegisteredRoute]:
        """The registered models by id. A mapping that was returned is never changed."""
        ...

    def vmodel_routes(self) -> Mapping[str, VModelRoute]:
        """The vmodels by id. A mapping that was returned is never changed."""
        ...

    def load_on_demand(self, model_id: str) -> None:
        """As `Control.load_on_demand`."""

    def used(self, model_id: str, count: int) -> None:
        """As `Control.used`."""

    def holds(self, triton_name: str, instance: str) -> bool:
        """Whether a copy of that name belongs on the instance."""
        ...

    def copy_lost(self, instance: str, triton_name: str) -> None:
        """The instance does not serve that copy any more, by itself."""

    def instance_changed(self, instance: str, up: bool) -> None:
        """An instance came up, empty or not, or went down with all that it held."""


class NoModelCache:
    """Nothing is registered."""

    def registered_routes(self) -> Mapping[str, RegisteredRoute]:
        return {}

    def vmodel_routes(self) -> Mapping[str, VModelRoute]:
        return {}

    def load_on_demand(self, model_id: str) -> None:
        """There is no such model."""

    def used(self, model_id: str, count: int) -> None:
        """There is no such model."""

    def holds(self, triton_name: str, instance: str) -> bool:
        return False

    def copy_lost(self, instance: str, triton_name: str) -> None:
        """No copy is kept here."""

    def instance_changed(self, instance: str, up: bool) -> None:
        """No copy is kept here."""
