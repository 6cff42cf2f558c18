"""Regions of system shared memory that Triton maps, too, and how many bytes of them a process may have."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bridge.triton.shared_memory_names import Owner

DIRECTORY = Path("/dev/shm")
PAGE = 4096
SMALLEST = 64 * PAGE

Bytes = NDArray[np.uint8]


def rounded(size: int) -> int:
    """The bytes of the region that is made for `size`: few different ones, so that regions can be used again.

    They are powers of two and one and a half of those, so at most a third is spare.
    """
    power = 1 << max(size - 1, SMALLEST - 1).bit_length()
    return power * 3 // 4 if SMALLEST < size <= power * 3 // 4 else power


class Region:
    """`size` bytes in a file of its own. The file never shrinks: that would kill a Triton that maps it.

    It takes no memory before `reserve`, so that whoever is killed between making a region and taking its name away
    leaves an empty file. Raises OSError.
    """

    def __init__(self, name: str, size: int, directory: Path = DIRECTORY) -> None:
        self.name = name
        self.size = size
        self._path = directory / name
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(self._descriptor, size)
            self._map = mmap.mmap(self._descriptor, size)
        except BaseException:
            self.unlink()
            self.end()
            raise

    def reserve(self) -> None:
        """Take memory for all of it: a page that cannot be had later on would kill whoever touches it.

        Raises OSError.
        """
        try:
            os.posix_fallocate(self._descriptor, 0, self.size)
        finally:
            self.end()

    def bytes(self) -> Bytes:
        """All of it, as an object of its own whose end shows that nobody looks at the region any more."""
        return np.frombuffer(self._map, np.uint8)

    def unlink(self) -> None:
        """Take the name away. Who maps the region keeps it; its memory goes back with the last of them."""
        self._path.unlink(missing_ok=True)

    def end(self) -> None:
        """Close the file. What is mapped stays until nobody looks at it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_left(owner: Owner, directory: Path = DIRECTORY) -> list[str]:
    """Unlink the files of bridges that were killed before they took their names away; returns the names, sorted.

    Raises OSError.
    """
    left = sorted(name for name in os.listdir(directory) if owner.outlived(name))
    for name in left:
        (directory / name).unlink(missing_ok=True)
    return left


class Allowance:
    """The bytes that all regions of a process may have. Half of the file system stays free for the runners."""

    def __init__(self, limit: int, directory: Path = DIRECTORY) -> None:
        self._left = limit
        self._directory = directory

    def take(self, size: int) -> bool:
        """Whether a region of `size` bytes may be made; it is accounted for then."""
        if size > self._left or not self._has_room(size):
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """A region of `size` bytes is gone."""
        self._left += size

    def _has_room(self, size: int) -> bool:
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return False
        return (found.f_bavail - found.f_blocks // 2) * found.f_frsize >= size
