"""Text-format ModelServerConfig files for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One model of the file; `policy` is the text inside model_version_policy."""

    name: str
    base_path: Path
    policy: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        labels = "".join(
            f" version_labels {{ key: {json.dumps(label)} value: {version} }}" for label, version in self.labels.items()
        )
        policy = f" model_version_policy {{ {self.policy} }}" if self.policy else ""
        return (
            f"config {{ name: {json.dumps(self.name)} base_path: {json.dumps(str(self.base_path))} "
            f'model_platform: "tensorflow"{policy}{labels} }}'
        )


def write(path: Path, *entries: Entry) -> Path:
    """Write the file `path` that lists these models."""
    lines = "\n  ".join(str(entry) for entry in entries)
    path.write_text(f"model_config_list {{\n  {lines}\n}}\n")
    return path
