"""Version directories under a base path, found by TF Serving's rules."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from model_repo_sync import completeness
from model_repo_sync.completeness import FileCache, IncompleteError

_INT64 = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class BasePathError(Exception):
    """The base path is missing, unreadable or no directory: nothing is known of its versions."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"base path {path} cannot be read: {reason}")
        self.path = path
        self.reason = reason


class VersionDirectory(NamedTuple):
    """A version that can be served. `path` is the base path joined with the directory's own name, `00000123` or so."""

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
    """Looks at base paths again and again; files that did not change are not read twice. Not for several threads."""

    def __init__(self) -> None:
        self._caches: dict[str, FileCache] = {}

    def scan(self, base_path: str, *, newest: int | None = None, only: Collection[int] | None = None) -> Scan:
        """The versions under `base_path` that hold a whole SavedModel, and the problems of the others.

        `newest` stops after that many whole versions from the highest down, `only` looks at those numbers alone: what
        they leave out is not read at all. Raises BasePathError.
        """
        candidates, problems = _candidates(base_path)
        if only is not None:
            candidates = [candidate for candidate in candidates if candidate.version in only]
        versions: list[VersionDirectory] = []
        cache = self._caches.setdefault(base_path, FileCache())
        for candidate in candidates:
            if newest is not None and len(versions) >= newest:
                break
            problem = _problem(candidate, cache)
            if problem is None:
                versions.append(candidate)
            else:
                problems.append(problem)
        cache.rotate()
        return Scan(tuple(reversed(versions)), tuple(sorted(problems)))

    def forget(self, base_path: str) -> None:
        """Drops what is remembered of a base path that is not scanned any more."""
        self._caches.pop(base_path, None)


def scan_base_path(base_path: str) -> Scan:
    """One look without memory; see `Scanner.scan`."""
    return Scanner().scan(base_path)


def parse_version(name: str) -> int | None:
    """The version that a directory name stands for, as absl::SimpleAtoi reads an int64; None for any other name.

    Surrounding ASCII whitespace, a sign and leading zeros are allowed: `00000123` is 123.
    """
    match = _INT64.fullmatch(name)
    if match is None:
        return None
    version = int(match[1])
    return version if _INT64_MIN <= version <= _INT64_MAX else None


def _candidates(base_path: str) -> tuple[list[VersionDirectory], list[Problem]]:
    """Version directories from the highest down, one for each number, and a problem for each one that lost."""
    chosen: dict[int, VersionDirectory] = {}
    problems: list[Problem] = []
    for name in sorted(_names(base_path), key=os.fsencode):
        version = parse_version(name)
        if version is None:
            continue
        directory = VersionDirectory(version, os.path.join(base_path, name))
        earlier = chosen.get(version)
        if earlier is not None:
            sentence = f"{earlier.path} is not offered: {directory.path} is version {version} too."
            problems.append(Problem(earlier.path, sentence))
        chosen[version] = directory
    return sorted(chosen.values(), reverse=True), problems


def _names(base_path: str) -> Iterable[str]:
    try:
        return os.listdir(base_path)
    except OSError as error:
        raise BasePathError(base_path, error.strerror or str(error)) from error


def _problem(candidate: VersionDirectory, cache: FileCache) -> Problem | None:
    path = candidate.path
    if not os.path.isdir(path):
        return Problem(path, f"{path} is not offered: it is not a directory.")
    try:
        completeness.check(path, cache)
    except IncompleteError as error:
        return Problem(path, f"{path} is not offered: it {error}.")
    return None
