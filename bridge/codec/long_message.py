"""Serialized messages that are too long to be copied together without need."""

from __future__ import annotations


class LongMessage:
    """A message in pieces, one behind the other. `bytes()` joins them; who can sends them from where they lie."""

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: tuple[bytes | memoryview, ...]) -> None:
        """Views are of single bytes."""
        self.pieces = pieces
        self._size = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


Message = bytes | LongMessage
