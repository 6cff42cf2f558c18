"""Version directories under a base path, found by TF Serving's rules."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from model_repo_sync import completeness
from model_repo_sync.completeness import FileCache, IncompleteError, LocalFiles
from model_repo_sync.object_store import NameRefused, ObjectFile, ObjectStore, StoreUnusable, local_path
from model_repo_sync.source_cache import DownloadError, SourceCache, TemporaryCache

_INT64 = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_T = TypeVar("_T")


class BasePathError(Exception):
    """The base path is missing, unreadable or no directory: nothing is known of its versions."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"base path {path} cannot be read: {reason}")
        self.path = path
        self.reason = reason


class VersionDirectory(NamedTuple):
    """A version that can be served. `path` is the base path joined with the directory's own name, `00000123` or so.

    In an object store it is a URL, which `SourceCache.fetch` makes a path.
    """

    version: int
    path: str


class Problem(NamedTuple):
    """Why the version directory at `path` is not offered, in one sentence that names the path."""

    path: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a base path. `versions` ascend; junk names are in neither list."""

    versions: tuple[VersionDirectory, ...] = ()
    problems: tuple[Problem, ...] = ()


class Scanner:
    """Looks at base paths again and again; files that did not change are not read twice. Not for several threads.

    `cache` takes the files that a look at an object store has to read; without one they are kept for a while only.
    """

    def __init__(self, cache: SourceCache | None = None) -> None:
        self._copies = cache
        self._caches: dict[str, FileCache] = {}

    def scan(self, base_path: str, *, newest: int | None = None, only: Collection[int] | None = None) -> Scan:
        """The versions under `base_path` that hold a whole SavedModel, and the problems of the others.

        `newest` stops after that many whole versions from the highest down, `only` looks at those numbers alone: what
        they leave out is not read at all. Raises BasePathError, and OSError where a store does not answer.
        """
        cache = self._caches.setdefault(base_path, FileCache())
        place = self._place(base_path, cache)
        candidates, problems = _candidates(place)
        if only is not None:
            candidates = [candidate for candidate in candidates if candidate.version in only]
        versions: list[VersionDirectory] = []
        for candidate in candidates:
            if newest is not None and len(versions) >= newest:
                break
            problem = place.problem(candidate.path)
            if problem is None:
                versions.append(candidate)
            else:
                problems.append(Problem(candidate.path, f"{candidate.path} is not offered: it {problem}."))
        cache.rotate()
        return Scan(tuple(reversed(versions)), tuple(sorted(problems)))

    def forget(self, base_path: str) -> None:
        """Drops what is remembered of a base path that is not scanned any more."""
        self._caches.pop(base_path, None)

    def _place(self, base_path: str, cache: FileCache) -> _Place:
        local = local_path(base_path)
        if local is not None:
            return _LocalPlace(local, cache)
        if self._copies is None:
            self._copies = TemporaryCache()
        try:
            return _StorePlace(self._copies.store(base_path), self._copies, cache)
        except StoreUnusable as error:
            raise BasePathError(base_path, str(error)) from error


def scan_base_path(base_path: str) -> Scan:
    """One look without memory; see `Scanner.scan`."""
    return Scanner().scan(base_path)


class _Place(Protocol):
    """Where a base path lies."""

    path: str

    def names(self) -> Iterable[str]:
        """What lies directly under the base path. Raises BasePathError."""

    def problem(self, path: str) -> str | None:
        """Why the version directory at `path` is not offered; the text ends the sentence that the path begins."""


class _LocalPlace:
    def __init__(self, path: str, cache: FileCache) -> None:
        self.path = path
        self._cache = cache

    def names(self) -> Iterable[str]:
        try:
            return os.listdir(self.path)
        except OSError as error:
            raise BasePathError(self.path, error.strerror or str(error)) from error

    def problem(self, path: str) -> str | None:
        if not os.path.isdir(path):
            return "is not a directory"
        return _incomplete(path, LocalFiles(path, self._cache))


class _StorePlace:
    def __init__(self, store: ObjectStore, copies: SourceCache, cache: FileCache) -> None:
        self.path = store.url
        self._store = store
        self._copies = copies
        self._cache = cache

    def names(self) -> Iterable[str]:
        try:
            children = self._store.children()
        except FileNotFoundError as error:
            raise BasePathError(self.path, error.strerror or str(error)) from error
        self._copies.forget_others(self.path, children.directories)
        return children.directories | children.files

    def problem(self, path: str) -> str | None:
        directory = path.rpartition("/")[2]
        try:
            files = self._store.files(directory)
        except NameRefused as error:
            return str(error)
        if not files:
            return "is not a directory"
        return _incomplete(path, _StoredFiles(self._store, self._copies, self._cache, directory, files))


@dataclass(frozen=True, slots=True)
class _StoredFiles:
    """The files of a version directory in an object store, by one listing of it."""

    store: ObjectStore
    copies: SourceCache
    cache: FileCache
    directory: str
    files: Mapping[str, ObjectFile]

    def size(self, name: str) -> int | None:
        file = self.files.get(name)
        return file.size if file else None

    def read(self, name: str, load: Callable[[str], _T]) -> _T:
        file = self.files[name]

        def bring() -> _T:
            try:
                return load(self.copies.bring(self.store, self.directory, name, file))
            except DownloadError as error:
                raise OSError(errno.EIO, str(error), f"{self.store.url}/{self.directory}/{name}") from error

        return self.cache.read(f"{self.directory}/{name}", file, bring)


def _incomplete(path: str, files: completeness.Files) -> str | None:
    try:
        completeness.check(path, files)
    except IncompleteError as error:
        return str(error)
    return None


def parse_version(name: str) -> int | None:
    """The version that a directory name stands for, as absl::SimpleAtoi reads an int64; None for any other name.

    Surrounding ASCII whitespace, a sign and leading zeros are allowed: `00000123` is 123.
    """
    match = _INT64.fullmatch(name)
    if match is None:
        return None
    version = int(match[1])
    return version if _INT64_MIN <= version <= _INT64_MAX else None


def _candidates(place: _Place) -> tuple[list[VersionDirectory], list[Problem]]:
    """Version directories from the highest down, one for each number, and a problem for each one that lost."""
    chosen: dict[int, VersionDirectory] = {}
    problems: list[Problem] = []
    for name in sorted(place.names(), key=os.fsencode):
        version = parse_version(name)
        if version is None:
            continue
        directory = VersionDirectory(version, os.path.join(place.path, name))
        earlier = chosen.get(version)
        if earlier is not None:
            sentence = f"{earlier.path} is not offered: {directory.path} is version {version} too."
            problems.append(Problem(earlier.path, sentence))
        chosen[version] = directory
    return sorted(chosen.values(), reverse=True), problems
