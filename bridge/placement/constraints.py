"""Which types of models may be, or would rather be, on which instances (MM_TYPE_CONSTRAINTS)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import InvalidArgument

DEFAULT = "_default"


@dataclass(frozen=True)
class Constraint:
    """An instance needs all labels of `required`; one with any label of `preferred` is chosen first."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()

    def allows(self, labels: frozenset[str]) -> bool:
        return labels.issuperset(self.required)


@dataclass(frozen=True)
class TypeConstraints:
    """Constraints by type of model; a type without an entry has that of `_default`."""

    by_type: Mapping[str, Constraint] = field(default_factory=dict)

    def of(self, model_type: str) -> Constraint:
        """The constraint of a type."""
        return self.by_type.get(model_type) or self.by_type.get(DEFAULT) or Constraint()

    def allows(self, model_type: str, labels: frozenset[str]) -> bool:
        """Whether an instance with these labels may hold models of this type."""
        return self.of(model_type).allows(labels)

    def prefers(self, model_type: str, labels: frozenset[str]) -> bool:
        """Whether an instance with these labels is better for this type than others that it may be on.

        A type that prefers no label leaves those instances free that some other type needs.
        """
        constraint = self.of(model_type)
        if constraint.preferred:
            return not labels.isdisjoint(constraint.preferred)
        others = (item for name, item in self.by_type.items() if name not in (model_type, DEFAULT) and item.required)
        return not any(item.allows(labels) for item in others if item != constraint)


def parse(document: Any) -> TypeConstraints:
    """Constraints from JSON: `{"<type>": {"required": [labels], "preferred": [labels]}, "_default": {…}}`.

    Raises InvalidArgument for anything else.
    """
    if not isinstance(document, dict):
        raise InvalidArgument("type constraints have to be a JSON object of one object for each type")
    return TypeConstraints({name: _constraint(name, item) for name, item in document.items()})


def _constraint(name: str, item: Any) -> Constraint:
    if not isinstance(item, dict) or item.keys() - {"required", "preferred"}:
        raise InvalidArgument(f"the constraint of type {name} is not an object of `required` and `preferred`")
    return Constraint(_labels(name, item.get("required")), _labels(name, item.get("preferred")))


def _labels(name: str, item: Any) -> tuple[str, ...]:
    if item is None:
        return ()
    if not isinstance(item, list) or not all(isinstance(label, str) for label in item):
        raise InvalidArgument(f"labels of type {name} are not a list of strings")
    return tuple(item)
