"""What the type, path and key of a registered model mean: which files, served how."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from model_repo_sync import model_key, model_schema, prepared_model, saved_model_files
from model_repo_sync.model_key import ModelKey
from model_repo_sync.model_schema import Schema, SchemaError
from model_repo_sync.prepared_model import BACKENDS, PreparationError, PreparedModel
from model_repo_sync.storage import ContentMissing, Storage
from model_repo_sync.storage_entry import StorageError

TENSORFLOW, TRITON = "tensorflow", "triton"
SIZE_FACTOR = 1.25
"""Bytes in memory for each byte on disk, as KServe's adapters guess."""
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
    """A model of `kind` whose content is the file or directory `path`.

    `version` is that of a version directory, else 1.
    One of kind `tensorflow` is a SavedModel directory, one of kind `triton` a directory of a Triton repository.
    """

    kind: str
    path: str
    version: int
    schema: Schema | None = None

    def prepare(self, triton_name: str) -> PreparedModel:
        """The model as `triton_name`, unless it is a SavedModel. Raises ModelTypeError."""
        try:
            if self.kind == TRITON:
                return prepared_model.native(self.path, triton_name, self.schema)
            return prepared_model.generated(self.kind, self.path, self.version, triton_name, self.schema)
        except (PreparationError, SchemaError) as error:
            raise ModelTypeError(str(error)) from error
        except OSError as error:
            raise ModelTypeError(f"{error.filename or self.path} cannot be read: {error.strerror}.") from error


def kind(info: ModelInfo) -> str:
    """The kind that a key names, or else a type: `tensorflow`, `tensorflow:2`, KServe's `mt:tensorflow:2|pv:grpc-v2`.

    Empty for a type that names none, such as `rt:` with a runtime.
    """
    named = model_key.parse(info.key).model_type
    return _kind(named or info.type)


def predicted_size(info: ModelInfo) -> int:
    """The bytes of memory to expect by the size on disk that the key tells, 0 where it tells none."""
    return int(model_key.parse(info.key).disk_size_bytes * SIZE_FACTOR)


@contextmanager
def resolved(info: ModelInfo, storage: Storage) -> Iterator[ResolvedModel]:
    """A model with its files, which are on this machine until the end.

    Raises ModelTypeError for what cannot be served, StorageUnavailable while a store does not answer.
    """
    name = kind(info)
    if name not in _LAYOUTS:
        known = ", ".join(sorted(_LAYOUTS))
        raise ModelTypeError(f"Models of type '{name or info.type}' cannot be served here; known types: {known}.")
    key = model_key.parse(info.key)
    with _content(storage, info.path, key) as path:
        schema = _schema(storage, key)
        native = name != TENSORFLOW and prepared_model.is_native(path)
        yield ResolvedModel(TRITON, path, 1, schema) if native else _laid_out(name, path, schema)


@contextmanager
def _content(storage: Storage, path: str, key: ModelKey) -> Iterator[str]:
    with ExitStack() as stack:
        with _told():
            local = stack.enter_context(storage.content(path, key))
        yield local


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise ModelTypeError(str(error)) from error
    except ContentMissing as error:
        raise ModelTypeError(str(error), missing=True) from error


def _schema(storage: Storage, key: ModelKey) -> Schema | None:
    if not key.schema_path:
        return None
    try:
        with _content(storage, key.schema_path, key) as path:
            return model_schema.parse(Path(path).read_bytes(), key.schema_path)
    except SchemaError as error:
        raise ModelTypeError(str(error)) from error
    except OSError as error:
        raise ModelTypeError(f"The schema {key.schema_path} cannot be read: {error.strerror}.") from error


def _laid_out(kind: str, path: str, schema: Schema | None) -> ResolvedModel:
    try:
        version, content = _LAYOUTS[kind](Path(path))
    except OSError as error:
        raise ModelTypeError(f"{error.filename or path} cannot be read: {error.strerror}.") from error
    return ResolvedModel(kind, os.fspath(content), version, schema)


def _kind(type: str) -> str:
    for part in type.lower().split("|"):
        prefix, _, rest = part.partition(":")
        if prefix == "mt":
            return rest.partition(":")[0]
        if prefix not in ("pv", "rt"):
            return prefix
    return ""


def _saved_model(path: Path) -> tuple[int, Path]:
    """A SavedModel directory, or one that holds version directories, of which the highest counts."""
    if not path.is_dir():
        raise ModelTypeError(f"{path} is no directory, as a SavedModel has to be.")
    if _is_saved_model(path):
        return 1, path
    found = [(version, directory) for version, item in _versions(path) if (directory := _descended(item)) is not None]
    if not found and (directory := _descended(path)) is not None:
        return 1, directory
    if not found:
        raise ModelTypeError(f"There is no SavedModel in {path}, nor in a version directory in it.", missing=True)
    return max(found)


def _descended(path: Path) -> Path | None:
    """The SavedModel that `path` is, or that is all there is in it."""
    if _is_saved_model(path):
        return path
    inner = _only_entry(path)
    return inner if _is_saved_model(inner) else None


def _content_of_backend(path: Path) -> tuple[int, Path]:
    """A file, a directory of files, or one of version directories, of which the highest counts."""
    if not path.is_dir():
        return 1, path
    versions = _versions(path)
    directories = [item for item in path.iterdir() if item.is_dir()]
    if versions and len(versions) == len(directories):
        version, directory = max(versions)
        return version, _only_entry(directory)
    return 1, _only_entry(path)


def _ready(path: Path) -> tuple[int, Path]:
    raise ModelTypeError(f"There is no {prepared_model.CONFIG} in {path}.", missing=True)


def _only_entry(path: Path) -> Path:
    """What is in a directory if that is one thing, else the directory."""
    entries = [item for item in path.iterdir() if item.name != model_schema.FILE]
    return entries[0] if len(entries) == 1 else path


def _versions(path: Path) -> list[tuple[int, Path]]:
    return [(int(item.name), item) for item in path.iterdir() if _VERSION.fullmatch(item.name) and item.is_dir()]


def _is_saved_model(path: Path) -> bool:
    return saved_model_files.find(os.fspath(path)) is not None


_LAYOUTS: dict[str, Callable[[Path], tuple[int, Path]]] = {
    TENSORFLOW: _saved_model,
    TRITON: _ready,
    **dict.fromkeys(BACKENDS, _content_of_backend),
}
"""From a path to version and content, by kind."""
