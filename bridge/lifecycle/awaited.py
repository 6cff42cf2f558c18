"""What requests for one model wait for after a start of the server, instead of hearing that it does not exist."""

from __future__ import annotations

from collections.abc import Collection


class AwaitedVersions:
    """The versions that are to serve again, and the first ones of a model that the server started with.

    TF Serving keeps its ports closed until its models serve, so that its clients wait and try again. A server that
    opens its ports at once has to make them wait in another way; and a version that served when its server was killed
    may not be answered for by a lower one.
    """

    def __init__(self, served_before: Collection[int] = (), *, at_start: bool = False) -> None:
        """`served_before` are the versions that served when the process before was killed; `at_start` says that the
        model belongs to what this process started with."""
        self._returning = set(served_before)
        self._undecided = at_start
        self.unread = at_start
        """True until the base path was read for the first time."""

    def found(self, wanted: Collection[int] | None) -> bool:
        """The base path was read and these versions are wanted, None if it could not be read. Whether that is news."""
        before = self.unread, self._undecided, len(self._returning)
        self.unread = False
        if wanted is not None:
            self._returning &= set(wanted)
        if not wanted:
            self._undecided = False
        return before != (self.unread, self._undecided, len(self._returning))

    def decided(self, version: int, *, serves: bool, last: bool) -> None:
        """A version serves or ended; `last` says that no other one loads."""
        self._returning.discard(version)
        if serves or last:
            self._undecided = False

    def versions(self, loading: Collection[int]) -> tuple[int, ...]:
        """The versions that requests wait for while `loading` are wanted and not decided."""
        return tuple(sorted(self._returning | (set(loading) if self._undecided else set())))
