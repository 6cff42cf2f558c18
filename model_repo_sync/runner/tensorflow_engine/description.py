"""What the runner says of itself to whoever asks whether it lives."""

from __future__ import annotations

import json
import os
from pathlib import Path

from . import __version__
from .statistics import Statistics

STATUS = Path("/proc/self/status")


class Description:
    """Versions, process, memory and work of this runner."""

    def __init__(self, tensorflow_version: str, statistics: Statistics) -> None:
        self._tensorflow = tensorflow_version
        self._statistics = statistics

    def json(self) -> str:
        """One JSON object: `runner`, `tensorflow`, `pid`, `memory_bytes`, the anonymous memory that is resident, and
        the totals of the statistics.

        File pages are left out, since every runner on the machine shares those of TensorFlow's libraries.
        """
        return json.dumps(
            {
                "runner": __version__,
                "tensorflow": self._tensorflow,
                "pid": os.getpid(),
                "memory_bytes": anonymous_memory(STATUS.read_text()),
                **self._statistics.totals(),
            }
        )


def anonymous_memory(status: str) -> int:
    """Bytes of RssAnon in the text of /proc/<pid>/status; 0 on a kernel that does not tell."""
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
