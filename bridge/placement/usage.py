"""How models are used: when, how regularly, how often a minute."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from bridge.placement.settings import MINUTE, PlacementSettings

GRAINS = 8
"""How finely uses are remembered: in parts of the least age that makes a use count as regular."""


class _History:
    """Times at which a model was used, no closer together than `grain`."""

    def __init__(self, grain: int) -> None:
        self._grain = grain
        self._uses: deque[int] = deque()

    def note(self, now: int) -> None:
        if not self._uses or now - self._uses[-1] >= self._grain:
            self._uses.append(now)

    def has_use_between(self, oldest: int, newest: int) -> bool:
        """Whether there was a use at these times or between them; forgets what is older."""
        while self._uses and self._uses[0] < oldest:
            self._uses.popleft()
        return bool(self._uses) and self._uses[0] <= newest


class Usage:
    """Used by requests, read by `close_interval` once every rate interval."""

    def __init__(self, settings: PlacementSettings, now: int) -> None:
        self._settings = settings
        self._last_used: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._since = now
        self._rates: dict[str, float] = {}
        self._histories: dict[str, _History] = {}

    def touch(self, model_id: str, last_used: int) -> None:
        """The model counts as used at that time."""
        self._last_used[model_id] = max(last_used, self._last_used.get(model_id, 0))

    def used(self, model_id: str, count: int, now: int) -> None:
        """Requests came for a model."""
        self.touch(model_id, now)
        self._counts[model_id] += count

    def last_used(self, model_id: str) -> int:
        """Milliseconds UTC, 0 for never."""
        return self._last_used.get(model_id, 0)

    def rpm(self, model_id: str) -> float:
        """Requests per minute in the last closed interval."""
        return self._rates.get(model_id, 0.0)

    def forget(self, model_id: str) -> None:
        for table in (self._last_used, self._counts, self._rates, self._histories):
            table.pop(model_id, None)

    def close_interval(self, now: int) -> frozenset[str]:
        """Begin a new interval; the models that were used regularly until now and were used in this one, too."""
        elapsed = max(1, now - self._since)
        self._rates = {model_id: count * MINUTE / elapsed for model_id, count in self._counts.items()}
        used, self._counts, self._since = self._counts, Counter(), now
        return frozenset(self._regular(used, now))

    def _regular(self, used: Iterable[str], now: int) -> list[str]:
        newest = now - self._settings.second_copy_min_age_ms
        oldest = now - self._settings.second_copy_max_age_ms
        regular = []
        for model_id in used:
            history = self._histories.setdefault(model_id, _History(self._settings.second_copy_min_age_ms // GRAINS))
            if history.has_use_between(oldest, newest):
                regular.append(model_id)
            history.note(now)
        return regular
