"""How models are used: when, how regularly, how often a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bridge.placement.settings import MINUTE, PlacementSettings


@dataclass
class _History:
    """Two uses, in steps of the rate interval: the latest, and the earlier one that is best for telling regular use."""

    earlier: int | None = None
    last: int | None = None


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
        return [model_id for model_id in used if self._note(self._histories.setdefault(model_id, _History()), now)]

    def _note(self, history: _History, now: int) -> bool:
        """Note a use; whether a noted earlier one lies as long ago as regular use asks for."""
        newest = now - self._settings.second_copy_min_age_ms
        oldest = now - self._settings.second_copy_max_age_ms
        last_fits = history.last is not None and oldest <= history.last <= newest
        earlier_fits = history.earlier is not None and oldest <= history.earlier <= newest
        if last_fits or not earlier_fits:
            history.earlier = history.last
        history.last = now
        return last_fits or earlier_fits
