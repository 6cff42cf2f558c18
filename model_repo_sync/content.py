"""What a SavedModel directory holds, byte for byte: its SHA-256, its size, and TensorFlow's own fingerprint.

The digest is that of `sha256sum`'s lines for all files, sorted by name, so that it can be made again without us:
`find -L . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from model_repo_sync.protos.tensorflow import fingerprint_pb2
from model_repo_sync.saved_model_files import SourceFile, walk

TENSORFLOW = "fingerprint.pb"
"""The file in which TensorFlow keeps its fingerprint, from 2.12 on."""


_CHUNK = 1 << 20


class Unsteady(OSError):
    """A file changed while it was read."""


class Stopped(OSError):
    """Nobody waits for the reading any more."""


class FileDigest(NamedTuple):
    """A file below a directory by its relative name. While size, mtime and inode stay its SHA-256 does, too."""

    name: str
    size: int
    mtime_ns: int
    inode: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Content:
    """`bytes` is the size of all `files`; `tensorflow` has the fields of fingerprint.pb, empty where there is none."""

    sha256: str
    bytes: int
    tensorflow: Mapping[str, str]
    files: tuple[FileDigest, ...]


class ContentReader:
    """Digests directories; a file whose path, size, mtime and inode did not change is not read twice.

    Safe for several threads.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, FileDigest]] = {}
        self._guard = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Break off what is being read, and read nothing more."""
        self._stopped.set()

    def remember(self, directory: str, files: Iterable[FileDigest]) -> None:
        """Know the files of a directory as an earlier process saw them."""
        with self._guard:
            self._known.setdefault(directory, {file.name: file for file in files})

    def forget(self, directory: str) -> None:
        with self._guard:
            self._known.pop(directory, None)

    def read(self, directory: str) -> Content:
        """What is in a directory. Raises OSError; Unsteady for a file that changes meanwhile, Stopped after `stop`."""
        known = self._known.get(directory, {})
        files = sorted((self._digest(directory, file, known) for file in walk(directory)), key=_order)
        with self._guard:
            self._known[directory] = {file.name: file for file in files}
        lines = b"".join(b"%s  %s\n" % (file.sha256.encode(), os.fsencode(file.name)) for file in files)
        digest = hashlib.sha256(lines).hexdigest()
        return Content(digest, sum(file.size for file in files), tensorflow_fingerprint(directory), tuple(files))

    def _digest(self, directory: str, file: SourceFile, known: Mapping[str, FileDigest]) -> FileDigest:
        status = _status(file.status)
        before = known.get(file.name)
        if before is not None and before[1:4] == status:
            return before
        digest = hashlib.sha256()
        with open(os.path.join(directory, file.name), "rb", buffering=0) as opened:
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
                if self._stopped.is_set():
                    raise Stopped(None, "the reading was broken off", opened.name)
            if _status(os.fstat(opened.fileno())) != status:
                raise Unsteady(None, "it changed while it was read", opened.name)
        return FileDigest(file.name, *status, digest.hexdigest())


def is_unchanged(directory: str, files: Iterable[FileDigest]) -> bool:
    """Whether these files are as they were, by their status alone; what came beside them is not looked for."""
    for file in files:
        try:
            status = os.stat(os.path.join(directory, file.name))
        except OSError:
            return False
        if _status(status) != file[1:4]:
            return False
    return True


def tensorflow_fingerprint(directory: str) -> dict[str, str]:
    """The fields of fingerprint.pb by name, as text; empty where there is none that can be read."""
    message: Any = fingerprint_pb2.FingerprintDef()
    try:
        with open(os.path.join(directory, TENSORFLOW), "rb") as file:
            message.ParseFromString(file.read())
    except (OSError, DecodeError):
        return {}
    return {field.name: str(value) for field, value in message.ListFields() if field.name != "version"}


def _status(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _order(file: FileDigest) -> bytes:
    return os.fsencode(file.name)
