"""Observed versions, and what is left of them when the process that observed them ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.errors import NotFound
from bridge.registry import Actor, ModelSpec, Owner, Registry
from bridge.serving.routes import VersionState

S = VersionState


@pytest.fixture(autouse=True)
def model(registry: Registry, actor: Actor) -> str:
    registry.put_model(ModelSpec("m", "/models/m"), Owner.CONFIG, actor)
    return "m"


def states(registry: Registry) -> list[tuple[int, int]]:
    return [(version.version, version.state) for version in registry.versions("m")]


def test_a_life_is_told_once_per_change(registry: Registry, actor: Actor, clock: Any) -> None:
    registry.record_version("m", 1, S.START, path="/models/m/1", fingerprint="f", actor=actor)
    clock.advance(7)
    for state in (S.LOADING, S.LOADING, S.AVAILABLE, S.AVAILABLE):
        registry.record_version("m", 1, state, actor=actor)
    registry.record_version("m", 1, S.AVAILABLE, size=99, actor=actor)
    (version,) = registry.versions()
    assert (version.state, version.path, version.fingerprint, version.size) == (S.AVAILABLE, "/models/m/1", "f", 99)
    assert version.updated_at - version.first_seen_at == 7
    told = registry.events(subject="model:m", action="version observed")
    assert [(event.after["state"], event.after["size"]) for event in told] == [
        ("START", 0),
        ("LOADING", 0),
        ("AVAILABLE", 0),
        ("AVAILABLE", 99),
    ]
    assert [event.before for event in told] == [None, *(event.after for event in told[:-1])]


def test_a_failure_keeps_code_and_text(registry: Registry, actor: Actor) -> None:
    assert registry.record_version("m", -5, S.END, 3, "no\0 such op\udcff", actor=actor)
    assert not registry.record_version("m", -5, S.END, 3, "no\0 such op\udcff", actor=actor)
    (version,) = registry.versions("m")
    assert (version.code, version.message) == (3, r"no\x00 such op\udcff")


def test_highest_version_first(registry: Registry, actor: Actor) -> None:
    for number in (2, 2**63 - 1, -5, 10):
        registry.record_version("m", number, S.START, actor=actor)
    assert [number for number, _ in states(registry)] == [2**63 - 1, 10, 2, -5]


def test_versions_of_a_removed_model_still_end(registry: Registry, actor: Actor) -> None:
    registry.record_version("m", 1, S.AVAILABLE, actor=actor)
    registry.remove_model("m", Owner.CONFIG, actor)
    assert registry.record_version("m", 1, S.END, actor=actor)
    with pytest.raises(NotFound, match="Model 'nix' is not known"):
        registry.record_version("nix", 1, S.END, actor=actor)


def test_end_of_process(open_registry: Callable[..., Registry], registry: Registry, actor: Actor) -> None:
    for number, state in enumerate((S.START, S.LOADING, S.AVAILABLE, S.UNLOADING, S.END), start=1):
        registry.record_version("m", number, state, actor=actor)
    registry.upsert_instance("local", "127.0.0.1:1", "", actor=actor)
    registry.record_instance_state("local", "up", actor=actor)
    registry.record_copy("tfs.0.m.3", "m", 3, "local", S.AVAILABLE, 10, actor=actor)
    restarted = open_registry()
    restarted.end_of_process(actor)
    assert states(restarted) == [(5, S.END), (4, 0), (3, 0), (2, 0), (1, 0)]
    assert restarted.copies() == ()
    assert [instance.state for instance in restarted.instances()] == ["unknown"]
    told = restarted.events()
    assert [event.action for event in told][-6:] == [
        *["version observed"] * 4,
        "instance unwatched",
        "copy lost",
    ]
    restarted.end_of_process(actor)
    assert restarted.events() == told
    restarted.record_version("m", 3, S.AVAILABLE, actor=actor)
    assert restarted.events()[-1].before["state"] == "UNKNOWN"
