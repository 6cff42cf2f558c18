"""What this machine has."""

from __future__ import annotations

import os


def available_memory() -> int:
    """Bytes of memory that new processes can have."""
    with open("/proc/meminfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
