"""Text-format ModelServerConfig files for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One model of the file; `policy` and `logging` are the texts inside model_version_policy and logging_config."""

    name: str
    base_path: Path
    policy: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)
    logging: str = ""

    def __str__(self) -> str:
        labels = "".join(
            f" version_labels {{ key: {json.dumps(label)} value: {version} }}" for label, version in self.labels.items()
        )
        policy = f" model_version_policy {{ {self.policy} }}" if self.policy else ""
        logging = f" logging_config {{ {self.logging} }}" if self.logging else ""
        return (
            f"config {{ name: {json.dumps(self.name)} base_path: {json.dumps(str(self.base_path))} "
            f'model_platform: "tensorflow"{policy}{labels}{logging} }}'
        )


def write(path: Path, *entries: Entry) -> Path:
    """Write the file `path` that lists these models."""
    path.write_text(text(*entries))
    return path


def text(*entries: Entry) -> str:
    """The ModelServerConfig that lists these models."""
    lines = "\n  ".join(str(entry) for entry in entries)
    return f"model_config_list {{\n  {lines}\n}}\n"
