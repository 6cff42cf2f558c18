"""Pages of files that a process maps and does not need at hand."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

MAPPINGS = Path("/proc/self/smaps")
MADV_DONTNEED = 4
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)")


class Mapping(NamedTuple):
    """`anonymous` is the kibibytes that differ from the file."""

    start: int
    end: int
    permissions: str
    path: str
    anonymous: int


def drop(directory: Path) -> None:
    """Let go of the pages of all files in `directory` that this process maps, until it touches them again.

    The loader reads symbols and relocations of TensorFlow's libraries once, 300 MB, and the kernel keeps such pages
    in the process. They stay in the page cache, so that touching one again costs microseconds. Pages that the loader
    wrote to are no copies of the file any more: their mappings are left alone.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    try:
        with MAPPINGS.open() as lines:
            found = [mapping for mapping in parse(lines) if is_copy(mapping, directory)]
    except OSError as error:
        logger.debug("Mapped files keep their pages: %s", error)
        return
    for mapping in found:
        madvise(mapping.start, mapping.end - mapping.start, MADV_DONTNEED)


def is_copy(mapping: Mapping, directory: Path) -> bool:
    """Whether every page of a mapping is that of a file in `directory`, and stays so."""
    return (
        mapping.permissions in ("r--p", "r-xp")
        and mapping.anonymous == 0
        and mapping.path.startswith(f"{directory}/")
        and not mapping.path.endswith(" (deleted)")
    )


def parse(lines: Iterable[str]) -> Iterator[Mapping]:
    """The mappings in the text of /proc/<pid>/smaps that tell of their anonymous pages."""
    head = None
    for line in lines:
        if found := _HEAD.match(line):
            head = found
        elif head is not None and line.startswith("Anonymous:"):
            start, end, permissions, path = head.groups()
            yield Mapping(int(start, 16), int(end, 16), permissions, path.rstrip("\n"), int(line.split()[1]))
