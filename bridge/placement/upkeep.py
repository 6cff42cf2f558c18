"""What placement does by itself from time to time: more copies and fewer, old failures, free space."""

from __future__ import annotations

import logging

from bridge.placement.cache import Entry
from bridge.placement.choice import Chooser, Wait
from bridge.placement.clock import Clock
from bridge.placement.errors import PlacementLoadError
from bridge.placement.failures import FailureRules
from bridge.placement.hosts import Hosts
from bridge.placement.model import Loadable
from bridge.placement.moves import Mover
from bridge.placement.ports import Catalog
from bridge.placement.scaling import Cluster, Load, Scaling
from bridge.placement.settings import PlacementSettings
from bridge.placement.sizes import Sizes
from bridge.placement.usage import Usage
from bridge.placement.wishes import Wishes

logger = logging.getLogger(__name__)

FILL_RESERVE = 8
"""Filling leaves one eighth of an instance free."""
FILL_MOST_FAILURES = 2


class Upkeep:
    """One `round` for each rate interval."""

    def __init__(
        self,
        settings: PlacementSettings,
        clock: Clock,
        hosts: Hosts,
        chooser: Chooser,
        mover: Mover,
        wishes: Wishes,
        catalog: Catalog,
        usage: Usage,
        sizes: Sizes,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._hosts = hosts
        self._chooser = chooser
        self._mover = mover
        self._wishes = wishes
        self._catalog = catalog
        self._usage = usage
        self._sizes = sizes
        self._scaling = Scaling(settings)
        self._rules = FailureRules(settings)
        self._removed_at: dict[str, int] = {}

    def round(self) -> None:
        """Look at every model once."""
        regular = self._usage.close_interval(self._clock.now())
        for model_id in list(self._catalog.ids()):
            self._expire(model_id)
            model = self._catalog.get(model_id)
            if model is not None and self._settings.second_copies:
                self._scale(model, regular=model_id in regular)
        if self._settings.fill_free_space:
            self._fill()

    def forget(self, model_id: str) -> None:
        self._removed_at.pop(model_id, None)

    def _expire(self, model_id: str) -> None:
        failures = self._catalog.failures(model_id)
        if failures:
            counting = self._rules.unexpired(failures, self._usage.last_used(model_id), self._clock.now())
            expired = [item.instance for item in failures if item not in counting]
            if expired:
                self._catalog.forget(model_id, expired)
                self._wishes.pursue_soon()

    def _scale(self, model: Loadable, *, regular: bool) -> None:
        loaded = self._hosts.loaded(model)
        if not loaded:
            return
        load = self._load(model, loaded, regular=regular)
        cluster = self._cluster()
        for _ in range(self._scaling.to_add(load, cluster)):
            self._add(model)
        if self._scaling.has_one_too_many(load, cluster):
            self._take_one(model, loaded)

    def _load(self, model: Loadable, loaded: list[Entry], *, regular: bool) -> Load:
        now = self._clock.now()
        allowed = self._chooser.allowed(self._hosts.all(), model.type)
        return Load(
            copies=len(loaded),
            pending=len(self._hosts.pending(model)),
            candidates=sum(1 for host in allowed if model.id not in host.cache.entries),
            hosts=len(allowed),
            rpm=self._usage.rpm(model.id),
            regular=regular,
            idle_ms=now - self._last_used(model.id),
            newest_copy_age_ms=now - max(entry.since for entry in loaded),
            last_removal_age_ms=now - self._removed_at.get(model.id, 0),
        )

    def _cluster(self) -> Cluster:
        caches = [host.cache for host in self._hosts if host.open]
        oldest = self._hosts.least_recently_used()
        age = 0 if oldest is None else self._clock.now() - oldest
        return Cluster(sum(cache.usable for cache in caches), sum(cache.free for cache in caches), age)

    def _add(self, model: Loadable) -> None:
        try:
            request = self._wishes.request(model, self._last_used(model.id), urgent=False)
            chosen = self._chooser.choose(self._hosts.all(), request, self._clock.now())
        except PlacementLoadError as error:
            logger.info("model %s gets no further copy: %s", model.id, error)
            return
        if not isinstance(chosen, Wait):
            logger.info("loading a further copy of model %s on instance %s", model.id, chosen.name)
            self._wishes.place(request, chosen)

    def _last_used(self, model_id: str) -> int:
        return max(self._usage.last_used(model_id), self._catalog.last_used(model_id))

    def _take_one(self, model: Loadable, loaded: list[Entry]) -> None:
        """From the instance with the least room."""
        entry = min(loaded, key=lambda item: self._hosts[item.instance].cache.free)
        logger.info("model %s needs its copy on instance %s no more", model.id, entry.instance)
        self._removed_at[model.id] = self._clock.now()
        self._mover.withdraw(self._hosts[entry.instance], entry)

    def _fill(self) -> None:
        for model_id in self._catalog.ids():
            model = self._catalog.get(model_id)
            if model is None or self._hosts.entries(model_id) or model_id in self._wishes:
                continue
            if not self._has_spare(self._sizes.expected(model)):
                return
            if len(self._catalog.failures(model_id)) < FILL_MOST_FAILURES:
                self._add(model)

    def _has_spare(self, size: int) -> bool:
        caches = [host.cache for host in self._hosts if host.open]
        return any(cache.free - size > cache.usable // FILL_RESERVE for cache in caches)
