"""Instances and copies."""

from __future__ import annotations

import pytest

from bridge.errors import InvalidArgument, NotFound
from bridge.registry import Actor, InstanceState, Registry
from bridge.serving.routes import VersionState

LOADING, AVAILABLE, UNLOADING = VersionState.LOADING, VersionState.AVAILABLE, VersionState.UNLOADING


@pytest.fixture
def instance(registry: Registry, actor: Actor) -> str:
    registry.upsert_instance("local", "127.0.0.1:1", "127.0.0.1:2", "bridge-1", actor=actor)
    return "local"


def actions(registry: Registry, skip: int = 0) -> list[str]:
    return [event.action for event in registry.events(after=skip)]


def test_an_instance_is_registered_and_moves(registry: Registry, actor: Actor, instance: str) -> None:
    assert not registry.upsert_instance(instance, "127.0.0.1:1", "127.0.0.1:2", "bridge-1", actor=actor)
    assert registry.upsert_instance(instance, "127.0.0.1:3", "127.0.0.1:4", "bridge-1", actor=actor)
    (found,) = registry.instances()
    assert (found.grpc, found.http, found.owner, found.state) == (
        "127.0.0.1:3",
        "127.0.0.1:4",
        "bridge-1",
        InstanceState.UNKNOWN,
    )
    last = registry.events(subject="instance:local")[-1]
    assert (last.before["grpc"], last.after["grpc"]) == ("127.0.0.1:1", "127.0.0.1:3")


def test_states_of_an_instance(registry: Registry, actor: Actor, instance: str) -> None:
    start = len(registry.events())
    for state, reason in (("up", ""), ("up", ""), ("lost", "refused"), ("lost", "refused again"), ("up", "")):
        registry.record_instance_state(instance, state, reason, actor=actor)
    assert actions(registry, start) == ["instance up", "instance lost", "instance back"]
    assert registry.events(action="instance lost")[0].after == {"state": "lost", "cause": "refused"}


def test_a_copy_is_loaded_and_lost(registry: Registry, actor: Actor, instance: str) -> None:
    start = len(registry.events())
    for state in (LOADING, AVAILABLE, AVAILABLE, UNLOADING):
        registry.record_copy("tfs.0.m.1", "m", 1, instance, state, 7, actor=actor)
    (copy,) = registry.copies()
    assert (copy.triton_name, copy.model, copy.version, copy.state, copy.size) == ("tfs.0.m.1", "m", 1, UNLOADING, 7)
    assert registry.remove_copy("tfs.0.m.1", instance, actor=actor)
    assert not registry.remove_copy("tfs.0.m.1", instance, actor=actor)
    assert actions(registry, start) == ["copy loaded", "copy lost"]


def test_a_removed_copy_says_why(registry: Registry, actor: Actor, instance: str) -> None:
    registry.record_copy("tfs.0.m.1", "m", 1, instance, AVAILABLE, actor=actor)
    registry.remove_copy("tfs.0.m.1", instance, "the stub died", actor=actor)
    assert registry.events()[-1].after == {"cause": "the stub died"}


def test_refusals(registry: Registry, actor: Actor) -> None:
    with pytest.raises(NotFound, match="Instance 'nix' is not registered"):
        registry.record_copy("tfs.0.m.1", "m", 1, "nix", AVAILABLE, actor=actor)
    with pytest.raises(NotFound, match="Instance 'nix' is not registered"):
        registry.record_instance_state("nix", "up", actor=actor)
    with pytest.raises(InvalidArgument, match="The instance name is empty"):
        registry.upsert_instance("", "", "", actor=actor)
