"""Whom a request is for: the name in its message, else ModelMesh's metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridge.codec.model_spec import MODELS_FIRST, ModelSpec, Namespace
from bridge.errors import InvalidArgument, Unimplemented

MetadataEntry = tuple[str, str | bytes]
"""A key in lower case with its value; that of a `-bin` key is bytes."""

_MODEL, _VMODEL = "mm-model-id", "mm-vmodel-id"
_LEGACY = "tas-model-id"
_KINDS = {_MODEL: "model", _VMODEL: "vmodel"}


class Addressing(NamedTuple):
    """How one port reads addresses: names in messages are looked up in the order of `lookup`.

    A name in the message wins over metadata. `required` ports refuse a request with neither in ModelMesh's words, the
    others leave that to the API.
    """

    lookup: tuple[Namespace, ...]
    required: bool

    def address(self, spec: ModelSpec | None, entries: Iterable[MetadataEntry]) -> ModelSpec | None:
        """`spec` with the name and the lookup that are meant.

        Raises InvalidArgument with ModelMesh's sentences, Unimplemented for several ids of a kind.
        """
        if spec is not None and spec.name:
            return spec if spec.lookup == self.lookup else spec._replace(lookup=self.lookup)
        found = _from_metadata(entries)
        if found is None:
            if self.required:
                raise InvalidArgument("must include mm-model-id header")
            return spec
        namespace, name = found
        return (spec or ModelSpec())._replace(name=name, lookup=(namespace,))


TF_SERVING = Addressing(MODELS_FIRST, required=False)
MODELMESH = Addressing((Namespace.VMODELS, Namespace.REGISTERED, Namespace.MODELS), required=True)


def _from_metadata(entries: Iterable[MetadataEntry]) -> tuple[Namespace, str] | None:
    values: dict[str, list[str | bytes]] = {}
    for key, value in entries:
        if key.startswith("mm-") or key == _LEGACY:
            values.setdefault(key, []).append(value)
    kinds = {kind: values.get(kind) or values.get(f"{kind}-bin") for kind in (_MODEL, _VMODEL)}
    present = [kind for kind, ids in kinds.items() if ids]
    if len(present) > 1:
        raise InvalidArgument("must include only one of model id and vmodel id")
    if present:
        return _NAMESPACES[present[0]], _one(present[0], kinds[present[0]] or [])
    legacy = values.get(_LEGACY)
    return (Namespace.REGISTERED, _one(_MODEL, legacy)) if legacy else None


_NAMESPACES = {_MODEL: Namespace.REGISTERED, _VMODEL: Namespace.VMODELS}


def _one(kind: str, ids: list[str | bytes]) -> str:
    if len(ids) > 1:
        raise Unimplemented(
            f"A request with {len(ids)} {kind} headers is not supported: ask one {_KINDS[kind]} a call."
        )
    value = ids[0]
    if not value:
        raise InvalidArgument(f"provided {_KINDS[kind]}-id header must be non-empty")
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"provided {kind}-bin header must be UTF-8") from error
