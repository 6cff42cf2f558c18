"""Where the files of registered models are: below a model root, on mounted claims, in stores.

The storages are those that the operator put into the storage-config directory, as KServe has it: one JSON file for each
key. A client chooses one of them and a place in it; addresses and credentials are never a client's to choose.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_repo_sync.model_key import ModelKey
from model_repo_sync.object_store import NameRefused, StoreUnusable
from model_repo_sync.saved_model_files import walk
from model_repo_sync.source_cache import DownloadError, SourceCache, TemporaryCache
from model_repo_sync.storage_entry import (
    LOCAL,
    PVC,
    REMOTE_TYPES,
    TYPES,
    RemoteStorage,
    StorageEntry,
    StorageError,
    file_system,
    remote,
)

DEFAULT = "default"
PVC_ROOT = "/pvc_mounts"
_CLIENTS_CHOICE = ("type", "bucket", "name")
_CERTIFICATES = "certificates"

OpenFileSystem = Callable[[str, Mapping[str, Any]], Any]
"""fsspec's filesystem of a scheme and options. Raises ImportError, ValueError."""


class ContentMissing(Exception):
    """There is nothing at a path, in one sentence."""


class StorageUnavailable(Exception):
    """A store does not answer now, or there is no room for what it holds, in one sentence."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """`model_root` is the directory that local paths are below, empty for none; `config_directory` has the storages.

    Claims are mounted in `pvc_root`. Downloads lie in `cache` while they are used.
    """

    model_root: str = ""
    config_directory: str = ""
    pvc_root: str = PVC_ROOT
    cache: str = ""


class Storage:
    """The storages of one server. Safe for several threads. What an earlier one left in the cache is removed."""

    def __init__(self, options: StorageOptions, open_file_system: OpenFileSystem = file_system) -> None:
        self._options = options
        self._open = open_file_system
        self._temporary = None if options.cache else TemporaryCache()
        self._cache = self._temporary.root if self._temporary else Path(options.cache)
        shutil.rmtree(self._cache, ignore_errors=True)
        self._caches: dict[str, SourceCache] = {}

    @contextmanager
    def content(self, path: str, key: ModelKey) -> Iterator[str]:
        """The file or directory on this machine with the content of `path`, which is there until the end.

        Raises StorageError, ContentMissing, StorageUnavailable.
        """
        entry = self._entry(key)
        if entry.type in REMOTE_TYPES:
            with self._downloaded(entry, path) as local:
                yield local
        else:
            yield _local(path, *self._root(entry))

    def _entry(self, key: ModelKey) -> StorageEntry:
        """The storage that a key means; without one of that name, the model root or a mounted claim."""
        chosen = {name: value for name in _CLIENTS_CHOICE if (value := key.storage_params.get(name))}
        name = key.storage_key or self._default(chosen.get("type", ""))
        if not name:
            return _unconfigured(chosen)
        values = self._read(name)
        _refuse_other_values(name, key, values)
        return _known(StorageEntry(name, {**values, **chosen}))

    def _default(self, type: str) -> str:
        names = [f"{DEFAULT}_{type}"] if type and "/" not in type else []
        directory = self._options.config_directory
        return next((name for name in [*names, DEFAULT] if directory and Path(directory, name).is_file()), "")

    def _read(self, name: str) -> Mapping[str, Any]:
        directory = self._options.config_directory
        missing = f"Did not find storage config for key '{name}' in --storage_config_dir={directory}."
        if not directory or "/" in name or "\0" in name or name in (".", ".."):
            raise StorageError(missing)
        try:
            document = json.loads(Path(directory, name).read_bytes())
        except (FileNotFoundError, IsADirectoryError) as error:
            raise StorageError(missing) from error
        except OSError as error:
            raise StorageError(f"The storage config of '{name}' cannot be read: {error.strerror}.") from error
        except (ValueError, RecursionError):
            # The reason may quote what is in the file.
            document = None
        if not isinstance(document, dict):
            raise StorageError(f"The storage config of '{name}' is no JSON object.")
        return document

    def _root(self, entry: StorageEntry) -> tuple[str, str]:
        """The directory that paths are below, and what messages call it."""
        if entry.type == PVC:
            name = entry.required("name")
            if "/" in name or "\0" in name or name in (".", ".."):
                raise StorageError(f"'{name}' cannot be the name of a claim.")
            return os.path.join(self._options.pvc_root, name), f"the claim '{name}'"
        if path := entry.text("path"):
            return os.path.normpath(os.path.join(self._options.model_root, path)), f"storage '{entry.name}'"
        return self._options.model_root, f"--model_root={self._options.model_root}"

    @contextmanager
    def _downloaded(self, entry: StorageEntry, path: str) -> Iterator[str]:
        reached = remote(entry, self._cache / _CERTIFICATES)
        cache = self._cache_of(entry, reached)
        url = reached.join(_checked(path))
        copy = cache.path_of(url)
        cache.hold(copy)
        try:
            yield _fetched(cache, url)
        finally:
            cache.release(copy)

    def _cache_of(self, entry: StorageEntry, reached: RemoteStorage) -> SourceCache:
        """Storages that differ in anything share no downloads: who may read one may not read the other."""

        def open_(kind: str) -> Any:
            return self._open(kind, reached.options)

        return self._caches.setdefault(
            entry.identity, SourceCache(self._cache / entry.identity, open_file_system=open_)
        )


def _unconfigured(chosen: Mapping[str, str]) -> StorageEntry:
    type = chosen.get("type", LOCAL)
    if type in REMOTE_TYPES:
        raise StorageError(
            f"No storage of type '{type}' is configured: there is no {DEFAULT}_{type} nor {DEFAULT} in "
            "--storage_config_dir."
        )
    return _known(StorageEntry(DEFAULT, {"type": type, **chosen}))


def _known(entry: StorageEntry) -> StorageEntry:
    if not entry.type:
        raise StorageError(f"Storage '{entry.name}' has no type.")
    if entry.type not in TYPES:
        known = ", ".join(TYPES)
        raise StorageError(f"Storage of type '{entry.type}' cannot be read here; known types: {known}.")
    return entry


def _refuse_other_values(name: str, key: ModelKey, values: Mapping[str, Any]) -> None:
    """KServe lets parameters replace anything, with which a client could send credentials to an address of its own."""
    if key.storage_params.get("type", values.get("type")) != values.get("type") and "type" in values:
        raise StorageError(f"Storage '{name}' is of type '{values['type']}', not '{key.storage_params['type']}'.")
    for parameter, value in key.storage_params.items():
        if parameter not in _CLIENTS_CHOICE and values.get(parameter) != value:
            raise StorageError(
                f"The storage parameter '{parameter}' can only be set in the storage config of '{name}'."
            )


def _local(path: str, root: str, called: str) -> str:
    """Raises StorageError unless `path`, and all that links below it lead to, lie in `root`."""
    if not root:
        raise StorageError(f"The path '{path}' cannot be used: no --model_root is set, below which models may lie.")
    joined = os.path.join(root, path)
    top = os.path.realpath(root)
    _require_inside(path, joined, top, called)
    if not os.path.exists(joined):
        raise ContentMissing(f"There is no directory or file {joined}.")
    if os.path.isdir(joined):
        try:
            for file in walk(joined):
                _require_inside(os.path.join(path, file.name), os.path.join(joined, file.name), top, called)
        except OSError as error:
            raise StorageError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return joined


def _require_inside(path: str, joined: str, top: str, called: str) -> None:
    try:
        real = os.path.realpath(joined)
    except ValueError as error:
        raise StorageError(f"The path '{path}' cannot be used: {error}.") from error
    if os.path.commonpath([real, top]) != top:
        raise StorageError(f"The path '{path}' leads out of {called}.")


def _checked(path: str) -> str:
    """A path in a store, where a leading slash means nothing."""
    trimmed = path.strip("/")
    if not trimmed or "\0" in trimmed or any(part in ("", ".", "..") for part in trimmed.split("/")):
        raise StorageError(f"The path '{path}' cannot be used: it names nothing in a store.")
    return trimmed


def _fetched(cache: SourceCache, url: str) -> str:
    try:
        return cache.fetch_any(url)
    except FileNotFoundError as error:
        raise ContentMissing(f"There is nothing at {url}.") from error
    except NameRefused as error:
        raise StorageError(f"{url} {error}.") from error
    except (OSError, StoreUnusable, DownloadError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StorageUnavailable(f"{url} could not be downloaded: {reason}.") from error
