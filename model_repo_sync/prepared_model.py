"""Models that Triton's own backends serve, as directories of a model repository."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from model_repo_sync.model_schema import FILE as SCHEMA_FILE
from model_repo_sync.model_schema import Schema
from model_repo_sync.saved_model_files import walk

CONFIG = "config.pbtxt"
FINGERPRINT = ".source"
"""A file beside the configuration that says of what a model was made; Triton overlooks it."""
BACKENDS: Mapping[str, tuple[str, str]] = {
    "onnx": ("onnxruntime", "model.onnx"),
    "pytorch": ("pytorch", "model.pt"),
    "tensorrt": ("tensorrt", "model.plan"),
}
"""The backend of a kind, and the name under which it looks for its file."""
_WITH_DIRECTORY = "onnx"
"""The kind whose backend also takes a directory under that name."""


class PreparationError(Exception):
    """Files that are no model of their kind, in one sentence."""


@dataclass(frozen=True)
class PreparedModel:
    """The text of config.pbtxt, and the other files of a Triton model: their place in it, and where they are now."""

    config: str
    files: Mapping[str, str]

    @property
    def bytes(self) -> int:
        """The size of the files. Raises OSError."""
        return sum(os.stat(path).st_size for path in self.files.values())

    def fingerprint(self) -> str:
        """A cheap identity of everything, in hex: configuration, names, sizes and times. Raises OSError."""
        digest = hashlib.sha256(self.config.encode())
        for name, path in sorted(self.files.items()):
            status = os.stat(path)
            digest.update(b"%d\0%d\0" % (status.st_size, status.st_mtime_ns) + os.fsencode(name) + b"\0")
        return digest.hexdigest()


def is_native(path: str) -> bool:
    """Whether a directory is a ready Triton model."""
    return os.path.isfile(os.path.join(path, CONFIG))


def native(path: str, name: str, schema: Schema | None) -> PreparedModel:
    """The Triton model in `path` as `name`; Triton overlooks version directories that begin with zeros.

    Raises PreparationError, SchemaError, OSError.
    """
    text = Path(path, CONFIG).read_bytes()
    try:
        config = text_format.Parse(text.decode(), model_config_pb2.ModelConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise PreparationError(f"{os.path.join(path, CONFIG)} is no model configuration: {error}.") from error
    config.name = name
    if schema is not None:
        schema.apply(config)
    return PreparedModel(text_format.MessageToString(config), _native_files(path))


def generated(kind: str, path: str, version: int, name: str, schema: Schema | None) -> PreparedModel:
    """The file or directory `path` as version `version` of a model of a kind in BACKENDS.

    Without a schema Triton asks the backend for inputs and outputs. Raises SchemaError, OSError.
    """
    backend, file = BACKENDS[kind]
    config: Any = model_config_pb2.ModelConfig(name=name, backend=backend)
    if schema is not None:
        schema.apply(config)
    return PreparedModel(text_format.MessageToString(config), _files(kind, path, f"{version}/", file))


def _native_files(path: str) -> Mapping[str, str]:
    versions = _versions(path)
    if not versions:
        raise PreparationError(f"{path} has no version directory.")
    files = {}
    for item in walk(path):
        first, _, rest = item.name.partition("/")
        target = f"{versions[first]}/{rest}" if rest and first in versions else item.name
        if item.name not in (CONFIG, FINGERPRINT, SCHEMA_FILE):
            files[target] = os.path.join(path, item.name)
    return files


def _versions(path: str) -> Mapping[str, int]:
    """The number of each version directory, by its name."""
    versions: dict[str, int] = {}
    for entry in sorted(os.listdir(path)):
        if not (entry.isascii() and entry.isdecimal() and os.path.isdir(os.path.join(path, entry))):
            continue
        if int(entry) in versions.values():
            raise PreparationError(f"{path} has version {int(entry)} twice.")
        versions[entry] = int(entry)
    return versions


def _files(kind: str, path: str, prefix: str, file: str) -> Mapping[str, str]:
    if not os.path.isdir(path):
        return {prefix + file: path}
    below = prefix + (f"{file}/" if kind == _WITH_DIRECTORY else "")
    return {below + item.name: os.path.join(path, item.name) for item in walk(path) if item.name != SCHEMA_FILE}
