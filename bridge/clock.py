"""The one source of time of the control plane."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time. Tests inject their own."""

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1000
