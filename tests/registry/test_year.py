"""A year in the life of a model: as-of answers equal a replay in memory, whenever they are asked for."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from bridge.registry import Actor, ModelSpec, Owner, Registry
from bridge.registry.history_records import StateAt
from bridge.registry.live import Move, ServedVersion
from tests.registry.conftest import ManualClock

CHANGES = 200
QUESTIONS = 1000
YEAR = 365 * 24 * 3600 * 1_000_000
ACTORS = tuple(Actor(name, "CLI", f"{name} had a reason") for name in ("ann", "bob", "cid", "dot", "eve"))
RECONCILE = Actor("bridge", "reconcile")
LABELS = ("stable", "canary")
VERSIONS = tuple(range(1, 9))

World = Mapping[str, Any]
"""By subject and aspect: the state, since when, and by whom; None for a state that is over."""


class Year:
    """The registry and a replay of what it was told, kept by time."""

    def __init__(self, registry: Registry, clock: ManualClock) -> None:
        self._registry = registry
        self._clock = clock
        self._dice = random.Random(2026)
        self._world: dict[str, Any] = {}
        self.times: list[int] = []
        self.worlds: list[World] = []

    def live_through(self) -> None:
        self._change(self._add)
        for _ in range(CHANGES - 1):
            self._change(self._dice.choice((self._policy, self._label, self._unlabel, self._serve, self._stop)))

    def at(self, time: int) -> World:
        """The world of the replay."""
        return self.worlds[bisect_right(self.times, time) - 1]

    def _change(self, change: Any) -> None:
        self._clock.advance(self._dice.randrange(1, 2 * YEAR // CHANGES))
        change(self._dice.choice(ACTORS))
        self.times.append(self._clock.time)
        self.worlds.append(dict(self._world))

    def _tell(self, key: str, state: Any, actor: Actor) -> None:
        self._world[key] = (state, self._clock.time, actor.name)

    def _add(self, actor: Actor) -> None:
        self._registry.put_model(ModelSpec("m", "/m"), Owner.CONFIG, actor)
        self._tell("model:m wanted", {"base_path": "/m", "platform": "tensorflow", "policy": {}}, actor)

    def _policy(self, actor: Actor) -> None:
        policy = {"latest": {"num_versions": self._dice.choice(VERSIONS)}}
        if self._registry.set_policy("m", policy, actor):
            self._tell("model:m wanted", {"base_path": "/m", "platform": "tensorflow", "policy": policy}, actor)

    def _label(self, actor: Actor) -> None:
        label, version = self._dice.choice(LABELS), self._dice.choice(VERSIONS)
        if self._registry.set_label("m", label, version, actor):
            self._tell(f"label:m/{label} wanted", {"version": version}, actor)

    def _unlabel(self, actor: Actor) -> None:
        label = self._dice.choice(LABELS)
        if label in self._registry.labels("m"):
            self._registry.remove_label("m", label, actor)
            self._tell(f"label:m/{label} wanted", None, actor)

    def _serve(self, actor: Actor) -> None:
        version, subject = self._dice.choice(VERSIONS), self._dice.choice(("model:m", "label:m/stable"))
        self._registry.record_version("m", version, 10, path=f"/m/{version}", actor=actor)
        self._registry.record_moves([Move(subject, ServedVersion("m", version, (version,)))], RECONCILE)
        state = {"model": "m", "version": version, "versions": [version], "fingerprint": "", "path": f"/m/{version}"}
        if self._world.get(f"{subject} live", (None,))[0] != state:
            self._world[f"{subject} live"] = (state, self._clock.time)
        self._world[f"seen {version}"] = True

    def _stop(self, actor: Actor) -> None:
        subject = self._dice.choice(("model:m", "label:m/stable"))
        self._registry.record_moves([Move(subject, None)], actor)
        if self._world.get(f"{subject} live", (None,))[0] is not None:
            self._world[f"{subject} live"] = (None, self._clock.time)


def answer(state: StateAt) -> World:
    """What the registry says, in the replay's words."""
    world: dict[str, Any] = {}
    for item in state.subjects:
        if item.wanted is not None:
            world[f"{item.subject} wanted"] = (item.wanted.state, item.wanted.since, item.wanted.actor)
        if item.live is not None:
            world[f"{item.subject} live"] = (item.live.state, item.live.since)
        for fact in item.observed:
            assert fact.state is not None
            world[f"seen {fact.state['version']}"] = True
    return world


def test_a_year_in_the_life_of_a_model(registry: Registry, clock: ManualClock) -> None:
    year = Year(registry, clock)
    year.live_through()
    assert {event.actor for event in registry.events(limit=1000)} >= {actor.name for actor in ACTORS}
    dice = random.Random(7)
    begin = year.times[0]
    for time in (*year.times, *(dice.randrange(begin, clock.time + 1) for _ in range(QUESTIONS - CHANGES))):
        assert answer(registry.state_at(time)) == year.at(time)
    assert registry.verify_chain() is None
