"""Copies of a model repository on other machines: what a model's directory holds, and how a copy of it is made.

A model is never changed in place, only replaced as a whole, so one digest tells all of its content apart.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from model_repo_sync.repository import ModelRepository
from model_repo_sync.saved_model_files import walk

MARK = ".mirror"
"""The file in a copy that says of what digest it is."""

Download = Callable[[str, str, str], Iterable[bytes]]
"""The bytes of a file of a model of some digest: name, digest, path. Raises OSError, for another digest too."""


@dataclass(frozen=True, slots=True)
class MirroredModel:
    """What a model's directory holds: sizes in bytes by relative paths, and directories, which may be empty."""

    digest: str
    files: Mapping[str, int]
    directories: tuple[str, ...] = ()


def look(directory: Path) -> MirroredModel:
    """What is in a model's directory. Raises OSError."""
    status = directory.stat()
    digest = hashlib.sha256(b"%d\0%d\0" % (status.st_ino, status.st_mtime_ns))
    files = {}
    for file in walk(os.fspath(directory)):
        files[file.name] = file.status.st_size
        digest.update(os.fsencode(file.name) + b"\0%d\0%d\0" % (file.status.st_size, file.status.st_mtime_ns))
    below = (os.path.relpath(path, directory) for path, _, _ in os.walk(directory))
    return MirroredModel(digest.hexdigest(), files, tuple(sorted(path for path in below if path != ".")))


def look_at_all(repository: ModelRepository) -> dict[str, MirroredModel]:
    """The models of a deployment. Raises OSError."""
    models = {}
    for name in repository.names():
        try:
            models[name] = look(repository.path / name)
        except FileNotFoundError:
            # It was removed, or replaced, between two looks.
            continue
    return models


class Mirror:
    """The copy in `repository` of what some other machine has."""

    def __init__(self, repository: ModelRepository) -> None:
        self._repository = repository

    def held(self) -> dict[str, str]:
        """The digests of the models that are here as a whole, by name. Raises OSError."""
        marks = {name: self._repository.path / name / MARK for name in self._repository.names()}
        return {name: mark.read_text() for name, mark in marks.items() if mark.is_file()}

    def follow(self, wanted: Mapping[str, MirroredModel], download: Download) -> list[str]:
        """Make this copy hold what is wanted and nothing else; the names of what changed.

        Raises OSError, and ValueError for what a bridge never says.
        """
        held = self.held()
        changed = [name for name in self._repository.names() if name not in wanted and self._repository.remove(name)]
        for name, model in wanted.items():
            if held.get(name) != model.digest:
                self._copy(name, model, download)
                changed.append(name)
        return changed

    def _copy(self, name: str, model: MirroredModel, download: Download) -> None:
        _require_relative([*model.files, *model.directories])

        def fill(directory: Path) -> None:
            for below in ("", *model.directories):
                (directory / below).mkdir(parents=True, exist_ok=True)
            for path, size in model.files.items():
                _write(directory / path, download(name, model.digest, path), size)
            _write(directory / MARK, [model.digest.encode()], len(model.digest))

        self._repository.place(name, fill)


def _require_relative(paths: Collection[str]) -> None:
    for path in paths:
        if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise ValueError(f"{path!r} cannot be a file of a model")


def _write(path: Path, data: Iterable[bytes], size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for chunk in data:
            file.write(chunk)
        if file.tell() != size:
            raise OSError(f"{path.name} came with {file.tell()} bytes instead of {size}")
        file.flush()
        os.fsync(file.fileno())
