"""What the commands of an operator ask: of a running server's admin API, or of the database where no server lives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

JsonObject = Mapping[str, Any]


class Admin(Protocol):
    """The verbs of `bridge.lifecycle.operations` and `bridge.modelmesh.operations`, blocking.

    Results are the admin API's JSON. Each raises BridgeError. Changes return whether they changed anything.
    """

    def models(self, name: str | None = None) -> Sequence[JsonObject]: ...

    def versions(self, model: str | None = None) -> Sequence[JsonObject]: ...

    def labels(self, model: str | None = None) -> Sequence[JsonObject]: ...

    def instances(self) -> Sequence[JsonObject]: ...

    def events(self, subject: str | None, action: str | None, after: int, limit: int) -> Sequence[JsonObject]: ...

    def registered_models(self, id: str | None = None) -> Sequence[JsonObject]: ...

    def vmodels(self, id: str | None = None) -> Sequence[JsonObject]: ...

    def set_policy(self, model: str, policy: JsonObject, reason: str) -> bool: ...

    def set_label(self, model: str, label: str, version: int, reason: str) -> bool: ...

    def remove_label(self, model: str, label: str, reason: str) -> bool: ...

    def set_vmodel(self, id: str, wanted: JsonObject, reason: str) -> bool:
        """`wanted` as `bridge.console.vmodel_body` reads it."""
        ...

    def delete_vmodel(self, id: str, reason: str) -> bool: ...
