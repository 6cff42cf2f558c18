"""Files that are there when they are complete, and not before."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bridge.errors import AlreadyExists, FailedPrecondition


def write(target: Path, lines: Iterable[str]) -> None:
    """Make `target` with these lines, for its owner alone; it appears when all of it is on disk.

    Raises AlreadyExists if it is there, FailedPrecondition if it cannot be written.
    """
    refuse_existing(target)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with open(partial, "wb", opener=_private) as file:
            for line in lines:
                file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        refuse_existing(target)
        partial.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise FailedPrecondition(f"The file '{target}' cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)


def refuse_existing(target: Path) -> None:
    """Raises AlreadyExists if `target` is there."""
    if target.exists():
        raise AlreadyExists(f"The file '{target}' exists already.")


def sync_directory(path: Path) -> None:
    """Have what was renamed in the directory survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
