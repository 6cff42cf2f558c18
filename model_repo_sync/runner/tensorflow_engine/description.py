"""What the runner says of itself to whoever asks whether it lives."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from . import __version__
from .gpu_memory import GpuMemory
from .machine import available_memory
from .statistics import Statistics

STATUS = Path("/proc/self/status")


class Elsewhere(NamedTuple):
    """Memory that a model takes in another process than its runner's."""

    memory_bytes: int
    device_bytes: int


NOTHING = Elsewhere(0, 0)


class Description:
    """Versions, process, memory and work of this runner."""

    def __init__(
        self,
        tensorflow_version: str,
        statistics: Statistics,
        *,
        with_gpus: bool = False,
        elsewhere: Elsewhere = NOTHING,
    ) -> None:
        """`with_gpus` looks at GPUs too, which is for runners on one, and for probes."""
        self._tensorflow = tensorflow_version
        self._elsewhere = elsewhere
        self._statistics = statistics
        self._gpus = GpuMemory() if with_gpus else None

    def json(self) -> str:
        """One JSON object: `runner`, `tensorflow`, `pid`, its memory, what is left, and the totals of the statistics.

        `memory_bytes` is the anonymous memory that is resident: file pages are left out, since every runner on the
        machine shares those of TensorFlow's libraries. `device_bytes` is what it has on GPUs. `available_bytes` and
        `available_device_bytes` are what the machine has left of both; 0 means that it is not known.
        """
        return json.dumps(
            {
                "runner": __version__,
                "tensorflow": self._tensorflow,
                "pid": os.getpid(),
                "memory_bytes": anonymous_memory(STATUS.read_text()) + self._elsewhere.memory_bytes,
                "device_bytes": (self._gpus.used_by(os.getpid()) if self._gpus else 0) + self._elsewhere.device_bytes,
                "available_bytes": available_memory(),
                "available_device_bytes": self._gpus.free() if self._gpus else 0,
                **self._statistics.totals(),
            }
        )


def anonymous_memory(status: str) -> int:
    """Bytes of RssAnon in the text of /proc/<pid>/status; 0 on a kernel that does not tell."""
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
