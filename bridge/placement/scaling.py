"""How many copies a model should have, by how it is used."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.placement.settings import HOUR, SECOND, PlacementSettings

MOST_AT_ONCE = 2
REMOVAL_PAUSE_MS = 80 * SECOND
LONGEST_IDLE_MS = 10 * HOUR


@dataclass(frozen=True)
class Cluster:
    """All instances together: bytes that models may have, bytes free of these, age of the longest unused copy."""

    usable: int
    free: int
    oldest_age_ms: int

    @property
    def has_spare_room(self) -> bool:
        return self.free * 10 >= self.usable

    @property
    def is_full(self) -> bool:
        return self.free * 20 < self.usable


@dataclass(frozen=True)
class Load:
    """One model: copies that serve and that are on their way, instances that could take another, and its use.

    `rpm` is for all copies together. Ages are in milliseconds.
    """

    copies: int
    pending: int
    candidates: int
    hosts: int
    rpm: float
    regular: bool
    idle_ms: int
    newest_copy_age_ms: int
    last_removal_age_ms: int


class Scaling:
    """ModelMesh's rules for a second copy, more copies, and fewer."""

    def __init__(self, settings: PlacementSettings) -> None:
        self._settings = settings

    def to_add(self, load: Load, cluster: Cluster) -> int:
        """How many more copies to load."""
        if load.copies == 0 or load.pending or not load.candidates:
            return 0
        if load.copies == 1 and load.regular and self._can_afford_second(cluster):
            return 1
        times = int(load.rpm / load.copies / self._settings.scale_up_rpm)
        wanted = min(times, load.candidates)
        return wanted if wanted <= MOST_AT_ONCE else max(MOST_AT_ONCE, min(wanted, load.hosts // 3))

    def has_one_too_many(self, load: Load, cluster: Cluster) -> bool:
        """Whether one copy can go, when memory is short."""
        if load.copies < 2 or load.pending or not cluster.is_full:
            return False
        if load.rpm / (load.copies - 1) > self._settings.scale_up_rpm * 2 / 3:
            return False
        if load.copies == 2:
            return load.idle_ms >= min(cluster.oldest_age_ms // 10, LONGEST_IDLE_MS)
        settled = load.newest_copy_age_ms >= self._settings.recent_copy_ms
        return settled and load.last_removal_age_ms >= REMOVAL_PAUSE_MS

    def _can_afford_second(self, cluster: Cluster) -> bool:
        old_enough = max(30 * self._settings.second_copy_max_age_ms, 6 * HOUR)
        return cluster.has_spare_room or cluster.oldest_age_ms > old_enough
