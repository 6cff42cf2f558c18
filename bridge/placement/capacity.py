"""How an instance's memory is divided."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capacity:
    """`total` bytes for models of an instance that loads `threads` at a time; models are `default_size` unless known.

    A part is kept as a reserve, in which models that left are still being unloaded while others already load.
    """

    total: int
    default_size: int
    threads: int

    @property
    def reserve(self) -> int:
        wanted = self.threads * self.default_size // (2 if self.threads <= 2 else 4)
        return min(max(wanted, self.total // 100), self.total // 10)

    @property
    def effective(self) -> int:
        """Bytes that models may be placed in."""
        return self.total - self.reserve

    @property
    def full_below(self) -> int:
        """With less free than this an instance counts as full."""
        return max(self.default_size, min(self.default_size * self.threads, self.total // 20))
