"""What the type, path and key of a registered model mean: which files, served how."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
_VERSION = re.compile(r"[0-9]+")


class ModelTypeError(Exception):
    """A registered model that cannot be served, in one sentence; `missing` says that its files are not there."""

    def __init__(self, sentence: str, *, missing: bool = False) -> None:
        super().__init__(sentence)
        self.missing = missing


class ModelInfo(Protocol):
    """What a client says about a model."""

    @property
    def type(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model of `kind` whose files are in the directory `path`; `version` is that of a version directory, else 1."""

    kind: str
    path: str
    version: int


def kind(type: str) -> str:
    """The kind of a type: `tensorflow` of `tensorflow`, `tensorflow:2` and KServe's `mt:tensorflow:2|pv:grpc-v2`.

    Empty for a type that names none, such as `rt:` with a runtime.
    """
    for part in type.split("|"):
        prefix, _, rest = part.partition(":")
        if prefix == "mt":
            return rest.partition(":")[0]
        if prefix not in ("pv", "rt"):
            return prefix
    return ""


def predicted_size(info: ModelInfo) -> int:
    """The bytes that the key promises (`disk_size_bytes`, as KServe writes it), 0 where it promises none."""
    size = _key(info.key).get("disk_size_bytes")
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0


def resolve(info: ModelInfo, root: str) -> ResolvedModel:
    """Where the files of a model are; nothing outside the directory `root` is ever served.

    Raises ModelTypeError for another type, a path outside the root, or one without a model.
    """
    name = kind(info.type)
    if name not in _LAYOUTS:
        known = ", ".join(sorted(_LAYOUTS))
        raise ModelTypeError(f"Models of type '{info.type}' cannot be served here; known types: {known}.")
    path = _inside(info.path, root)
    version, directory = _LAYOUTS[name](path)
    _require_inside(directory, root)
    return ResolvedModel(name, os.fspath(directory), version)


def _inside(path: str, root: str) -> Path:
    if not root:
        raise ModelTypeError(f"The path '{path}' cannot be used: no --model_root is set, below which models may lie.")
    joined = Path(root, path)
    _require_inside(joined, root)
    return joined


def _require_inside(path: Path, root: str) -> None:
    try:
        real, top = os.path.realpath(path), os.path.realpath(root)
    except ValueError as error:
        raise ModelTypeError(f"The path '{path}' cannot be used: {error}.") from error
    if os.path.commonpath([real, top]) != top:
        raise ModelTypeError(f"The path '{path}' leads out of --model_root={root}.")


def _saved_model(path: Path) -> tuple[int, Path]:
    """A SavedModel directory, or one that holds version directories, of which the highest counts."""
    if not path.is_dir():
        raise ModelTypeError(f"There is no directory {path}.", missing=True)
    if _is_saved_model(path):
        return 1, path
    versions = [(int(item.name), item) for item in path.iterdir() if _VERSION.fullmatch(item.name)]
    saved_models = [(version, item) for version, item in versions if _is_saved_model(item)]
    if not saved_models:
        raise ModelTypeError(f"There is no SavedModel in {path}, nor in a version directory in it.", missing=True)
    return max(saved_models)


def _is_saved_model(path: Path) -> bool:
    return any((path / name).is_file() for name in SAVED_MODEL_FILES)


def _key(text: str) -> dict[str, Any]:
    """The key as an object; clients that write something else into it mean nothing that we know."""
    try:
        document = json.loads(text) if text else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


_LAYOUTS = {"tensorflow": _saved_model}
"""From a path to version and directory, by kind."""
