"""Brings the files of a SavedModel into a repository, by hard links or by copies."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from model_repo_sync.saved_model_files import walk

_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS})
_CURE = "use --model_transfer=copy or auto"


class TransferError(Exception):
    """Content could not be brought into the repository, in one sentence; the repository is as it was."""


class TransferMode(Enum):
    """`AUTO` links the files that can be linked and copies the others."""

    AUTO = "auto"
    COPY = "copy"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class TransferReport:
    """`bytes` is the size of the content, `transfer` is `link`, or `copy` where any file had to be copied."""

    bytes: int
    transfer: str


class _File(NamedTuple):
    """A file by its name where it goes, with its path and status where it is."""

    name: str
    path: str
    status: os.stat_result


class Transfer:
    """`free` tells the bytes that may still be written on the file system of a path."""

    def __init__(self, mode: TransferMode, free: Callable[[str], int]) -> None:
        self._mode = mode
        self._free = free

    def run(self, source: str, destination: Path) -> TransferReport:
        """Makes `destination` with the files below `source`, symbolic links resolved. Raises TransferError, OSError."""
        return self.run_files(
            source, {file.name: os.path.join(source, file.name) for file in walk(source)}, destination
        )

    def run_files(self, source: str, paths: Mapping[str, str], destination: Path) -> TransferReport:
        """Makes `destination` with files by their names there, from their paths now; messages call all that `source`.

        Raises TransferError, OSError.
        """
        files = [_File(name, path, os.stat(path)) for name, path in paths.items()]
        destination.mkdir()
        device = os.stat(destination).st_dev
        foreign = [file for file in files if file.status.st_dev != device]
        self._check_links(destination, foreign)
        copied = files if self._mode is TransferMode.COPY else foreign
        self._check_space(source, destination, sum(file.status.st_size for file in copied))
        linked = [self._place(source, destination, file, device) for file in files]
        _sync_tree(destination)
        return TransferReport(sum(file.status.st_size for file in files), "link" if all(linked) else "copy")

    def _check_links(self, destination: Path, foreign: list[_File]) -> None:
        if self._mode is TransferMode.LINK and foreign:
            raise TransferError(
                f"{foreign[0].path} cannot be linked into {destination}: they are on different file systems; {_CURE}."
            )

    def _check_space(self, source: str, destination: Path, needed: int) -> None:
        free = self._free(os.fspath(destination)) if needed else 0
        if needed > free:
            raise TransferError(
                f"{source} needs {needed} bytes on the file system of {destination}, which has {free} free."
            )

    def _place(self, source: str, destination: Path, file: _File, device: int) -> bool:
        """Links or copies one file; returns whether it was linked."""
        origin, target = os.path.realpath(file.path), destination / file.name
        link = self._mode is not TransferMode.COPY and file.status.st_dev == device
        target.parent.mkdir(parents=True, exist_ok=True)
        if link and self._link(origin, target):
            return True
        if link:
            self._check_space(source, destination, file.status.st_size)
        copy_file(origin, target)
        return False

    def _link(self, origin: str, target: Path) -> bool:
        try:
            os.link(origin, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            if self._mode is TransferMode.LINK:
                sentence = f"{origin} cannot be linked into {target.parent}: {error.strerror}; {_CURE}."
                raise TransferError(sentence) from error
            return False
        return True


def copy_file(origin: str, target: Path) -> None:
    """Copies bytes and lets them reach the disk; permissions are those of a new file, so that Triton can read it."""
    shutil.copyfile(origin, target)
    _sync(target, os.O_RDONLY)


def write_file(path: Path, data: bytes) -> None:
    """Writes a file and lets it reach the disk."""
    path.write_bytes(data)
    _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    """Lets the entries of a directory reach the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync_tree(directory: Path) -> None:
    for path, _, _ in os.walk(directory):
        sync_directory(Path(path))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
