"""What the registry knows of contents: where versions came from, and which of them a rollback holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bridge.registry.records import JsonObject, ModelSpec, Owner

FileRow = tuple[str, int, int, int, str]
"""Relative name, size, mtime in nanoseconds, inode, SHA-256."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a version was loaded from.

    `identity` is what the files' names, sizes and times were told apart by at the load, `fingerprint` the SHA-256 of
    every byte (see `model_repo_sync.content`). `tensorflow` has the fields of TensorFlow's own fingerprint, empty where
    the export has none; `signatures` are the names that can be called; `files` are as they were at `path`. `found` is
    the fingerprint of what lay there at the last look, where that is something else. `size` is in bytes, times are
    microseconds UTC and 0 where the registry is to set them.
    """

    model: str
    version: int
    identity: str
    fingerprint: str
    path: str
    size: int
    tensorflow: Mapping[str, str]
    signatures: tuple[str, ...]
    files: tuple[FileRow, ...]
    first_seen_at: int = 0
    last_seen_at: int = 0
    found: str | None = None

    def content(self) -> dict[str, Any]:
        """What events tell of it."""
        return {
            "fingerprint": self.fingerprint,
            "path": self.path,
            "size": self.size,
            "tensorflow": dict(self.tensorflow),
            "signatures": list(self.signatures),
        }


@dataclass(frozen=True, slots=True)
class PinnedContent:
    """A version with the content that a rollback holds; `path` is where that came from at first."""

    version: int
    fingerprint: str
    path: str


@dataclass(frozen=True, slots=True)
class Pin:
    """The versions that a rollback holds a model at, whatever its policy says, since `since` (microseconds UTC).

    `entry` is the model's entry in the configuration of that time, None for none: another entry lifts the pin.
    """

    model: str
    contents: tuple[PinnedContent, ...]
    entry: JsonObject | None
    since: int

    @property
    def versions(self) -> tuple[int, ...]:
        return tuple(content.version for content in self.contents)

    def content(self) -> dict[str, Any]:
        """What events tell of it."""
        return {"versions": [asdict(content) for content in self.contents]}


@dataclass(frozen=True, slots=True)
class ModelRollback:
    """What a rollback of a model writes.

    `spec` is the model as it is wanted from now on, `contents` are what it is held at. `expected` is the content that
    the model has now, None where it is not there. `before` and `after` are what the event tells, `reference` names the
    event or the time that is gone back to.
    """

    spec: ModelSpec
    owner: Owner
    contents: tuple[PinnedContent, ...]
    expected: JsonObject | None
    reference: str
    before: JsonObject | None
    after: JsonObject


@dataclass(frozen=True, slots=True)
class LabelRollback:
    """What a rollback of a label writes: the version that it shall mean, None for no label.

    `expected` is what it means now.
    """

    model: str
    label: str
    version: int | None
    expected: int | None
    reference: str
