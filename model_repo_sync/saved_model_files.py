"""The files of a SavedModel directory: where the graph is, how it parses, and what identifies the content."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf import text_format

from model_repo_sync.protos import POOL
from model_repo_sync.protos.tensorflow import saved_model_pb2

BINARY = "saved_model.pb"
TEXT = "saved_model.pbtxt"
NAMES = (BINARY, TEXT)
"""The serialized SavedModel, the binary form first as TensorFlow prefers it."""
SESSION_BUNDLE = ("export.meta", "export.meta.pbtxt")
"""Files of the legacy export format."""


class SourceFile(NamedTuple):
    """A regular file below a SavedModel directory: its relative name and its status, links followed."""

    name: str
    status: os.stat_result


def find(directory: str) -> str | None:
    """The path of the serialized SavedModel in `directory`, the binary form first as TensorFlow prefers it."""
    for name in NAMES:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return path
    return None


def is_session_bundle(directory: str) -> bool:
    """Whether `directory` holds the legacy export format, which TF Serving refuses."""
    return any(os.path.exists(os.path.join(directory, name)) for name in SESSION_BUNDLE)


def parse(path: str) -> saved_model_pb2.SavedModel:
    """The message in `path`, text or binary by its name.

    Raises OSError, DecodeError, ParseError, UnicodeDecodeError.
    """
    with open(path, "rb") as file:
        data = file.read()
    if not path.endswith(TEXT):
        return saved_model_pb2.SavedModel.FromString(data)
    # Our protos declare a subset of TensorFlow's; the binary form skips the rest by itself.
    message = saved_model_pb2.SavedModel()
    return text_format.Parse(data.decode(), message, allow_unknown_field=True, descriptor_pool=POOL)


def walk(directory: str) -> Iterator[SourceFile]:
    """Every regular file below `directory` in sorted order, symbolic links followed; links to nothing are left out.

    Raises OSError where something cannot be read, and for a directory that contains itself through a link.
    """
    yield from _walk(directory, "", frozenset())


def fingerprint(directory: str) -> str:
    """A cheap identity of a SavedModel's content, in hex.

    It is the SHA-256 over the bytes of the serialized SavedModel and over name, size and mtime of every file. Variables
    are not read: content that changes in place while keeping size and mtime goes unseen.
    """
    digest = hashlib.sha256()
    for file in walk(directory):
        digest.update(os.fsencode(file.name) + b"\0%d\0%d\0" % (file.status.st_size, file.status.st_mtime_ns))
    path = find(directory)
    if path is not None:
        with open(path, "rb") as graph:
            digest.update(hashlib.file_digest(graph, "sha256").digest())
    return digest.hexdigest()


def _walk(directory: str, prefix: str, ancestors: frozenset[tuple[int, int]]) -> Iterator[SourceFile]:
    status = os.stat(directory)
    identity = (status.st_dev, status.st_ino)
    if identity in ancestors:
        raise OSError(errno.ELOOP, "a link leads back to a directory above it", directory)
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        path = os.path.join(directory, name)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(path, f"{prefix}{name}/", ancestors | {identity})
        elif stat.S_ISREG(status.st_mode):
            yield SourceFile(prefix + name, status)
