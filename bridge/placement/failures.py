"""Which failed loads still count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import Failure
from bridge.placement.settings import PlacementSettings


class FailureRules:
    """Failures expire after a while, sooner for a model that is being requested."""

    def __init__(self, settings: PlacementSettings) -> None:
        self._settings = settings

    def unexpired(self, failures: Sequence[Failure], last_used: int, now: int) -> tuple[Failure, ...]:
        """The failures that keep their instances from being tried, newest first."""
        expiry = self._settings.failure_expiry_ms
        if now - last_used < self._settings.requested_within_ms:
            expiry //= 2
        return _newest_first(failure for failure in failures if now - failure.at_ms < expiry)

    def verdict(self, failures: Sequence[Failure], now: int) -> PlacementLoadError | None:
        """The newest failure when there are so many recent ones that no instance shall be tried, else None."""
        recent = _newest_first(item for item in failures if now - item.at_ms < self._settings.failure_expiry_ms // 2)
        return as_error(recent[0]) if len(recent) >= self._settings.max_load_failures else None


def as_error(failure: Failure) -> PlacementLoadError:
    """What waiters are told of a recorded failure."""
    return PlacementLoadError(failure.code, failure.message)


def _newest_first(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(sorted(failures, key=lambda failure: failure.at_ms, reverse=True))
