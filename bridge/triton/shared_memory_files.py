"""Files in /dev/shm that a killed bridge or Triton leaves behind.

Triton's Python backend keeps one region of 1 MiB or more per instance there; a killed, loading or hung stub does not
remove it, and it counts as memory until the next boot.
"""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)

DIRECTORY = Path("/dev/shm")


def remove(prefix: str, directory: Path = DIRECTORY) -> list[str]:
    """Unlink every file whose name begins with `prefix`; returns the removed names, sorted.

    Processes that still map such a file keep their mapping. Raises ValueError for an empty prefix.
    """
    if not prefix:
        raise ValueError("an empty prefix would remove the shared memory of every process")
    removed = []
    for path in sorted(directory.glob("*")):
        if path.name.startswith(prefix) and _unlinked(path):
            removed.append(path.name)
    return removed


def _unlinked(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        logger.warning("Shared memory file %s stays: %s.", path, error.strerror)
        return False
    return True
