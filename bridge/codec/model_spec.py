"""tensorflow.serving.ModelSpec between its wire bytes and the bridge's own type."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from bridge.codec import wire
from bridge.codec.wire import LEN, VARINT

_NAME, _VERSION, _SIGNATURE, _LABEL = 1 << 3 | LEN, 2 << 3 | LEN, 3 << 3 | LEN, 4 << 3 | LEN
_INT64_VALUE = 1 << 3 | VARINT


class Namespace(Enum):
    """What a name can be the name of."""

    MODELS = "TF Serving's models"
    VMODELS = "vmodels"
    REGISTERED = "registered models"


MODELS_FIRST = (Namespace.MODELS, Namespace.VMODELS, Namespace.REGISTERED)
"""How the ports of TF Serving's clients look names up."""


class ModelSpec(NamedTuple):
    """Which model, version and signature a client asks for.

    At most one of `version` and `label` is not None; version 0 is a version. Empty `signature` means the default. The
    name means what the first namespace in `lookup` knows that has it.
    """

    name: str = ""
    version: int | None = None
    label: str | None = None
    signature: str = ""
    lookup: tuple[Namespace, ...] = MODELS_FIRST


def merge_model_spec(spec: ModelSpec | None, data: bytes | memoryview) -> ModelSpec:
    """`spec` with the fields of a serialized ModelSpec, as protobuf merges a message that comes in pieces.

    Raises MalformedRequest.
    """
    name, version, label, signature, _ = spec or ModelSpec()
    for tag, _, view in wire.fields(memoryview(data)):
        if tag == _NAME:
            name = wire.text(view)
        elif tag == _VERSION:
            version, label = _merge_int64(version or 0, view), None
        elif tag == _SIGNATURE:
            signature = wire.text(view)
        elif tag == _LABEL:
            version, label = None, wire.text(view)
    return ModelSpec(name, version, label, signature)


def _merge_int64(value: int, data: memoryview) -> int:
    for tag, number, _ in wire.fields(data):
        if tag == _INT64_VALUE:
            value = wire.signed(number)
    return value


def encode_model_spec(name: str, version: int | None, signature: str, label: str | None = None) -> bytes:
    """A serialized ModelSpec. Responses always have a version, and never a label."""
    parts = [wire.length_delimited(_NAME, name.encode())] if name else []
    if version is not None:
        parts.append(wire.length_delimited(_VERSION, b"\x08" + wire.encode_varint(version) if version else b""))
    if signature:
        parts.append(wire.length_delimited(_SIGNATURE, signature.encode()))
    if label is not None:
        parts.append(wire.length_delimited(_LABEL, label.encode()))
    return b"".join(parts)
