"""Which instance gets the next copy of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from bridge.errors import Code
from bridge.placement.errors import PlacementLoadError, nowhere
from bridge.placement.failures import as_error
from bridge.placement.host import Host
from bridge.placement.model import ErrorKind, Failure, Loadable
from bridge.placement.settings import PlacementSettings

BUSY_RPM = 100
"""Below this the requests that an instance answers say little about its load."""


@dataclass(frozen=True)
class Request:
    """What is to be placed. `size` is in bytes, `failures` are unexpired and newest first.

    Instances in `excluded` failed in this search already, the last one with `last_error`.
    """

    model: Loadable
    size: int
    last_used: int
    urgent: bool
    failures: Sequence[Failure] = ()
    excluded: Collection[str] = ()
    last_error: PlacementLoadError | None = None

    @property
    def newer_than(self) -> int | None:
        """Only copies older than that make room; for a request that waits any copy does."""
        return None if self.urgent else self.last_used


@dataclass(frozen=True)
class Wait:
    """No instance can take it now, but that may change."""

    reason: str


class Chooser:
    """Takes the least loaded instance, at random one of those that are nearly as good.

    `rpm` tells the requests a minute that an instance, by its name, answers.
    """

    def __init__(self, settings: PlacementSettings, random: Random, rpm: Callable[[str], float]) -> None:
        self._settings = settings
        self._random = random
        self._rpm = rpm

    def allowed(self, hosts: Sequence[Host], model_type: str) -> list[Host]:
        """The instances that take copies and have the labels that this type needs."""
        constraints = self._settings.constraints
        return [host for host in hosts if host.open and constraints.allows(model_type, host.instance.labels)]

    def choose(self, hosts: Sequence[Host], request: Request, now: int) -> Host | Wait:
        """The instance for a further copy. Raises PlacementLoadError when none will do."""
        if not any(host.open for host in hosts):
            return Wait("no instance is up")
        allowed = self.allowed(hosts, request.model.type)
        if not allowed:
            raise self._labels_missing(request.model.type)
        candidates = self._candidates(allowed, request)
        if not candidates:
            raise self._all_tried(request)
        fitting = self._fitting(candidates, request)
        calm = [host for host in fitting if not self._churning(host, request.size, now)]
        if not calm:
            raise PlacementLoadError(Code.UNAVAILABLE, "Cache churn threshold exceeded", ErrorKind.CAPACITY)
        rooms = {host: host.cache.room(request.size, request.newer_than, now) for host in calm}
        with_room = [host for host, room in rooms.items() if room.fits]
        if with_room:
            return self._best(with_room, request, now)
        if any(room.later for room in rooms.values()):
            return Wait("every instance is busy loading")
        raise nowhere("every instance is full of models that were used more recently")

    def _labels_missing(self, model_type: str) -> PlacementLoadError:
        labels = ", ".join(self._settings.constraints.of(model_type).required)
        return nowhere(
            f"There are no running instances that meet the label requirements of type {model_type}: [{labels}]"
        )

    def _all_tried(self, request: Request) -> PlacementLoadError:
        if request.last_error is not None:
            return request.last_error
        if request.failures:
            return as_error(request.failures[0])
        return nowhere(f"every instance that may hold model {request.model.id} has it already")

    def _candidates(self, allowed: Sequence[Host], request: Request) -> list[Host]:
        failed = {failure.instance for failure in request.failures}
        without = [host for host in allowed if request.model.id not in host.cache.entries]
        return [host for host in without if host.name not in failed and host.name not in request.excluded]

    def _fitting(self, candidates: Sequence[Host], request: Request) -> list[Host]:
        fitting = [host for host in candidates if request.size <= host.cache.usable]
        if not fitting:
            most = max(host.cache.usable for host in candidates)
            raise nowhere(
                f"Predicted size of {request.size} bytes for model {request.model.id} is larger than total effective "
                f"capacity of {most} bytes"
            )
        return fitting

    def _churning(self, host: Host, size: int, now: int) -> bool:
        oldest = host.cache.least_recently_used()
        young = oldest is not None and now - oldest < self._settings.min_churn_age_ms
        return young and host.cache.is_full(size)

    def _best(self, hosts: Sequence[Host], request: Request, now: int) -> Host:
        preferred = [h for h in hosts if self._settings.constraints.prefers(request.model.type, h.instance.labels)]
        roomy = [host for host in preferred or hosts if not host.cache.is_full(request.size)]
        similar = self._similarly_free(roomy) if roomy else self._similarly_old(preferred or hosts, now)
        return self._random.choice(self._not_busier(similar))

    def _similarly_free(self, hosts: Sequence[Host]) -> list[Host]:
        best = max(hosts, key=lambda host: (-len(host.cache.entries), host.cache.free))
        most = len(best.cache.entries) * 1.25
        enough = best.cache.free / 2
        return [h for h in hosts if h is best or (len(h.cache.entries) <= most and h.cache.free >= enough)]

    def _similarly_old(self, hosts: Sequence[Host], now: int) -> list[Host]:
        ages = {host: now - (host.cache.least_recently_used() or 0) for host in hosts}
        oldest = max(ages.values())
        tolerance = max(self._settings.similar_age_ms, oldest // 10)
        return [host for host, age in ages.items() if oldest - age <= tolerance]

    def _not_busier(self, hosts: Sequence[Host]) -> list[Host]:
        """Without those that answer many more requests than the calmest one."""
        rates = {host: self._rpm(host.name) for host in hosts}
        limit = max(BUSY_RPM, 1.5 * min(rates.values()))
        return [host for host, rate in rates.items() if rate <= limit]
