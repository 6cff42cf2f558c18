"""JSON schemas of what the admin API answers, taken from the dataclasses that it answers with."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer", "format": "int64"}
ANYTHING: Schema = {}
OBJECT: Schema = {"type": "object"}

_SIMPLE: dict[Any, Schema] = {str: TEXT, bool: FLAG, int: NUMBER, float: {"type": "number"}, Any: ANYTHING}


def record(kind: type) -> Schema:
    """An object with every field of a dataclass."""
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]
    return {
        "type": "object",
        "properties": {name: of(hints[name]) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def of(hint: Any) -> Schema:
    """What a value with this annotation is as JSON. Raises TypeError for an annotation that is none of ours."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return record(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": [str(item) for item in hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _any_of(arguments)
    if origin is tuple and arguments[-1] is not ...:
        return {"type": "array", "items": _any_of(arguments), "minItems": len(arguments), "maxItems": len(arguments)}
    if origin in (tuple, list, Sequence):
        return array(of(arguments[0]))
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": of(arguments[1])}
    raise TypeError(f"{hint} has no JSON schema")


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def envelope(**properties: Schema) -> Schema:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _any_of(arguments: Sequence[Any]) -> Schema:
    unique: list[Schema] = []
    for argument in arguments:
        schema = {"type": "null"} if argument is type(None) else of(argument)
        if schema not in unique:
            unique.append(schema)
    return unique[0] if len(unique) == 1 else {"anyOf": unique}
