"""Whether a version directory holds a whole SavedModel, or one that is still being copied."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.text_format import ParseError

from model_repo_sync import checkpoint_index, saved_model_files
from model_repo_sync.checkpoint_index import CheckpointIndexError, Shard
from model_repo_sync.protos.tensorflow import meta_graph_pb2, saved_model_pb2

_VARIABLE_OPS = frozenset({"VarHandleOp", "VariableV2", "Variable"})
_VARIABLES = "variables/variables"
_INDEX = f"{_VARIABLES}.index"
_T = TypeVar("_T")


class IncompleteError(Exception):
    """The directory is not a whole SavedModel; the text ends the sentence that its path begins."""


class _Identity(NamedTuple):
    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a saved_model.pb needs beside itself. `assets` are file names below `assets/`."""

    variables: bool
    assets: tuple[str, ...]


class FileCache:
    """What was read from files, until their identity changes.

    `rotate` forgets whatever was not asked for since the last rotation, so that the cache follows its directory.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, object]] = {}
        self._fresh: dict[str, tuple[Hashable, object]] = {}

    def read(self, path: str, identity: Hashable, load: Callable[[], _T]) -> _T:
        """`load()`, or what it gave for the same file before; an IncompleteError is kept too. Raises OSError."""
        entry = self._fresh.get(path) or self._kept.get(path)
        if entry is None or entry[0] != identity:
            entry = (identity, _outcome(load))
        self._fresh[path] = entry
        if isinstance(entry[1], IncompleteError):
            raise IncompleteError(*entry[1].args)
        return entry[1]  # type: ignore[return-value]  # a path is always read by the same loader

    def rotate(self) -> None:
        self._kept, self._fresh = self._fresh, {}


class Files(Protocol):
    """The files of one version directory, by their names below it."""

    def size(self, name: str) -> int | None:
        """Bytes, None where there is no such file."""

    def read(self, name: str, load: Callable[[str], _T]) -> _T:
        """What `load` makes of the file at a local path, at most once while the file stays as it is."""


class LocalFiles:
    """A directory of this machine."""

    def __init__(self, directory: str, cache: FileCache) -> None:
        self._directory = directory
        self._cache = cache

    def size(self, name: str) -> int | None:
        try:
            return os.stat(os.path.join(self._directory, name)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, name: str, load: Callable[[str], _T]) -> _T:
        path = os.path.join(self._directory, name)
        return self._cache.read(path, _identity(os.stat(path)), lambda: load(path))


def check(directory: str, files: Files) -> None:
    """Raises IncompleteError unless `directory`, which has `files`, holds all that its SavedModel names.

    A legacy SessionBundle passes: nothing of it is missing, and reading it says why it cannot be served.
    """
    try:
        _check(files)
    except OSError as error:
        name = os.path.relpath(error.filename, directory) if isinstance(error.filename, str) else "a file"
        raise IncompleteError(f"has an unreadable {name} ({error.strerror})") from error


def _check(files: Files) -> None:
    name = _first(files, saved_model_files.NAMES)
    if name is None:
        if _first(files, saved_model_files.SESSION_BUNDLE) is not None:
            return
        raise IncompleteError("has no saved_model.pb")
    parts = files.read(name, _parts)
    if parts.variables or files.size(_INDEX) is not None:
        _check_variables(files)
    for asset in parts.assets:
        if files.size(f"assets/{asset}") is None:
            raise IncompleteError(f"lacks assets/{asset}")


def _check_variables(files: Files) -> None:
    if files.size(_INDEX) is None:
        raise IncompleteError("lacks variables/variables.index")
    for shard in files.read(_INDEX, _shards):
        size = files.size(f"{_VARIABLES}.{shard.suffix}") or 0
        if size < shard.size:
            raise IncompleteError(f"has {size} of the {shard.size} bytes of variables/variables.{shard.suffix}")


def _first(files: Files, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if files.size(name) is not None), None)


def _parts(path: str) -> _Parts:
    message = _parsed(path)
    if not message.meta_graphs:
        raise IncompleteError(f"has a {os.path.basename(path)} without a graph")
    return _Parts(
        variables=any(_restores_variables(graph) for graph in message.meta_graphs),
        assets=tuple(sorted({asset.filename for graph in message.meta_graphs for asset in graph.asset_file_def})),
    )


def _parsed(path: str) -> saved_model_pb2.SavedModel:
    try:
        return saved_model_files.parse(path)
    except (DecodeError, ParseError, UnicodeDecodeError) as error:
        raise IncompleteError(f"has a truncated or damaged {os.path.basename(path)}") from error


def _restores_variables(graph: meta_graph_pb2.MetaGraphDef) -> bool:
    # TensorFlow loads a SavedModel without variables/ as one that has none, and fails at the first request instead.
    return bool(graph.saver_def.restore_op_name) and any(node.op in _VARIABLE_OPS for node in graph.graph_def.node)


def _shards(path: str) -> tuple[Shard, ...]:
    try:
        return checkpoint_index.read_shards(path)
    except CheckpointIndexError as error:
        raise IncompleteError(f"has a variables/variables.index that {error}") from error


def _outcome(load: Callable[[], _T]) -> _T | IncompleteError:
    try:
        return load()
    except IncompleteError as error:
        return error


def _identity(status: os.stat_result) -> _Identity:
    return _Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
