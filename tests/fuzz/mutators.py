"""Mutations that keep a request well formed, so that they reach what lies behind its parser."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.vocabulary import JSON_TOKENS, NAMES

INTEGERS = (0, 1, 2, 3, 7, 100, 123, 127, 128, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 62), (1 << 63) - 1, 1 << 64)
FLOATS = (0.0, -0.0, 0.5, 1.0, 2.0, 1e38, 1e-45, 1e300, float("inf"), float("-inf"), float("nan"))
_BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), 32),
    FieldDescriptor.CPPTYPE_ENUM: (-(1 << 31), 32),
    FieldDescriptor.CPPTYPE_UINT32: (0, 32),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), 64),
    FieldDescriptor.CPPTYPE_UINT64: (0, 64),
}
"""Lowest value and width of each integer type."""


def mutate_message(message: Message, random: Random) -> None:
    """Change one field somewhere in `message`."""
    fields = [field for field, _ in message.ListFields()]
    if not fields or random.random() < 0.25:
        fields = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = random.choice(fields)
    if random.random() < 0.1:
        message.ClearField(field.name)
    elif not field.is_repeated:
        _mutate_one(message, field, random)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _mutate_map(getattr(message, field.name), field, random)
    else:
        _mutate_list(getattr(message, field.name), field, random)


def _mutate_one(message: Message, field: Any, random: Random) -> None:
    if field.message_type is None:
        setattr(message, field.name, _scalar(field, random))
        return
    part = getattr(message, field.name)
    part.SetInParent()
    mutate_message(part, random)


def _mutate_map(items: Any, field: Any, random: Random) -> None:
    keys, values = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    known = list(items)
    key = random.choice(known) if known and random.random() < 0.7 else _scalar(keys, random)
    if values.message_type is None:
        items[key] = _scalar(values, random)
    elif random.random() < 0.2 and known:
        items[key].CopyFrom(items[random.choice(known)])
    else:
        mutate_message(items[key], random)


def _mutate_list(items: Any, field: Any, random: Random) -> None:
    choice = random.random()
    if items and choice < 0.2:
        del items[random.randrange(len(items))]
    elif field.message_type is not None:
        element = items.add() if not items or choice < 0.4 else random.choice(items)
        mutate_message(element, random)
    elif items and choice < 0.6:
        items[random.randrange(len(items))] = _scalar(field, random)
    else:
        items.extend([_scalar(field, random)] * random.choice((1, 1, 2, 5, 40)))


def _scalar(field: Any, random: Random) -> Any:
    kind = field.cpp_type
    if kind in _BITS:
        lowest, bits = _BITS[kind]
        value = random.choice(INTEGERS) if random.random() < 0.8 else random.getrandbits(bits)
        value = random.choice((value, -value))
        return (value - lowest) % (1 << bits) + lowest
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return random.choice(FLOATS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.choice((0, 1, 2, 4, 8, 12, 16, 64)))
    return _text(random)


def _text(random: Random) -> str:
    if random.random() < 0.7:
        return random.choice(NAMES)
    characters = (random.choice("aZ0_/:. \\\"'\0\n\x7f\x80ßй漢😀") for _ in range(random.choice((1, 2, 5, 400))))
    return "".join(characters)


def mutate_json(text: bytes, random: Random) -> bytes:
    """`text` with one value, key or token changed. Raises ValueError if it is no JSON."""
    root = json.loads(text)
    if random.random() < 0.2:
        words = json.dumps(root).split(" ")
        words[random.randrange(len(words))] += random.choice(JSON_TOKENS)
        return " ".join(words).encode()
    holder = {"root": root}
    _mutate_value(holder, "root", random)
    return json.dumps(holder["root"], ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def _mutate_value(parent: Any, key: Any, random: Random) -> None:
    value = parent[key]
    if isinstance(value, dict | list) and value and random.random() < 0.75:
        inner = _inner(value, random)
        if isinstance(value, dict) and random.random() < 0.2:
            value[random.choice(NAMES)] = value.pop(inner)
        elif random.random() < 0.1:
            del value[inner]
        else:
            _mutate_value(value, inner, random)
    elif isinstance(value, list) and random.random() < 0.5:
        value.extend(value[:1] * random.choice((1, 3, 50)) or [_value(random)])
    else:
        parent[key] = _value(random) if random.random() < 0.7 else [value]


def _inner(value: Any, random: Random) -> Any:
    """One key or position; seldom that of the signature, without which nothing else is looked at."""
    if isinstance(value, list):
        return random.randrange(len(value))
    keys = [*value]
    if random.random() < 0.9:
        keys = [key for key in keys if key != "signature_name"] or keys
    return random.choice(keys)


def _value(random: Random) -> Any:
    number = random.choice(INTEGERS)
    plain = (number, -number, number + 0.5, random.choice(FLOATS), _text(random), "\ud800", True, False, None)
    made: tuple[Any, ...] = (*plain, [], {}, [[]], {"b64": "YQ=="}, {"b64": "*"}, {"b64": 1}, {_text(random): number})
    return random.choice(made)
