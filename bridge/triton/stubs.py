"""The runners' processes of one tritonserver."""

from __future__ import annotations

import os
from pathlib import Path

STUB = "triton_python_backend_stub"
PROCESSES = Path("/proc")


def models(parent: int) -> set[str]:
    """Triton names of the models for which a stub runs as a child of process `parent`."""
    found = set()
    for process in PROCESSES.glob("[0-9]*"):
        name = _model(process, parent)
        if name is not None:
            found.add(name)
    return found


def _model(process: Path, parent: int) -> str | None:
    """The model that a stub's first argument names, the path of what would be its model.py: `<name>/1/model.py`."""
    try:
        if _parent(process) != parent:
            return None
        program, path, *_ = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except (OSError, ValueError):
        return None
    parts = Path(path).parts
    return parts[-3] if os.path.basename(program) == STUB and len(parts) > 3 else None


def _parent(process: Path) -> int:
    """The program's name, which may hold blanks and parentheses, ends at the last parenthesis."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return -1 if fields[0] == "Z" else int(fields[1])
