"""Models, policies and labels: every change is one event, no change is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import AlreadyExists, BridgeError, InvalidArgument, NotFound
from bridge.registry import Actor, ModelSpec, Owner, Registry

SPEC = ModelSpec("half_plus_two", "/models/half_plus_two", policy={"latest": 2}, labels={"stable": 1})


@pytest.fixture
def model(registry: Registry, actor: Actor) -> str:
    registry.put_model(SPEC, Owner.ADMIN, actor)
    return SPEC.name


def last_event(registry: Registry) -> tuple[str, str, Any, Any]:
    (event,) = registry.events(limit=1, newest_first=True)
    return event.subject, event.action, event.before, event.after


def test_a_model_comes_and_goes(registry: Registry, actor: Actor, model: str) -> None:
    found = registry.model(model)
    assert (found.owner, found.base_path, found.policy, found.labels) == (
        Owner.ADMIN,
        SPEC.base_path,
        {"latest": 2},
        {"stable": 1},
    )
    assert last_event(registry) == ("model:half_plus_two", "model added", None, SPEC.wanted())
    registry.remove_model(model, Owner.ADMIN, actor)
    assert last_event(registry) == ("model:half_plus_two", "model removed", SPEC.wanted(), None)
    assert registry.models() == ()
    assert [(gone.name, gone.present, gone.labels) for gone in registry.models(removed=True)] == [(model, False, {})]
    with pytest.raises(NotFound, match="Model 'half_plus_two' is not known"):
        registry.model(model)


def test_the_same_content_is_no_change(registry: Registry, actor: Actor, model: str) -> None:
    before = registry.events()
    assert not registry.put_model(SPEC, Owner.ADMIN, actor)
    assert not registry.set_policy(model, {"latest": 2}, actor)
    assert not registry.set_label(model, "stable", 1, actor)
    assert registry.events() == before


def test_policy(registry: Registry, actor: Actor, model: str) -> None:
    assert registry.set_policy(model, {"specific": [1, 3]}, actor)
    assert registry.model(model).policy == {"specific": [1, 3]}
    assert last_event(registry) == (
        "model:half_plus_two",
        "policy set",
        SPEC.wanted(),
        replace(SPEC, policy={"specific": [1, 3]}).wanted(),
    )


def test_request_logging_is_kept_and_shown_where_there_is_some(registry: Registry, actor: Actor, model: str) -> None:
    assert registry.model(model).logging == {}
    logged = replace(SPEC, logging={"filename_prefix": "/logs/half", "sampling_config": {"sampling_rate": 0.5}})
    assert registry.put_model(logged, Owner.ADMIN, actor)
    assert registry.model(model).logging == logged.logging
    assert last_event(registry)[2:] == (SPEC.wanted(), {**SPEC.wanted(), "logging": logged.logging})


def test_label_is_set_moved_and_removed(registry: Registry, actor: Actor, model: str) -> None:
    assert registry.set_label(model, "canary", 2**63 - 1, actor)
    assert last_event(registry) == ("label:half_plus_two/canary", "label set", None, {"version": 2**63 - 1})
    assert registry.set_label(model, "canary", -5, actor)
    assert last_event(registry) == (
        "label:half_plus_two/canary",
        "label set",
        {"version": 2**63 - 1},
        {"version": -5},
    )
    assert registry.labels(model) == {"canary": -5, "stable": 1}
    assert registry.remove_label(model, "canary", actor)
    assert last_event(registry) == ("label:half_plus_two/canary", "label removed", {"version": -5}, None)
    assert registry.labels(model) == {"stable": 1}


def test_an_event_says_who_and_why(registry: Registry, model: str, clock: Any) -> None:
    clock.advance(5)
    registry.set_label(model, "canary", 2, Actor("bob", "RPC", reason="x" * 3000, request_id="id"))
    (event,) = registry.events(subject="label:half_plus_two/canary")
    assert (event.actor, event.source, event.reason, event.request_id) == ("bob", "RPC", "x" * 1024, "id")
    assert event.at == clock.now()


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda r, a: r.set_label("nix", "l", 1, a), NotFound, "Model 'nix' is not known."),
        (lambda r, a: r.set_label("a\0b", "l", 1, a), NotFound, r"Model 'a\\x00b' is not known."),
        (lambda r, a: r.set_policy("nix", {}, a), NotFound, "Model 'nix' is not known."),
        (lambda r, a: r.remove_label("nix", "l", a), NotFound, "Model 'nix' is not known."),
        (lambda r, a: r.remove_label("half_plus_two", "l", a), NotFound, "has no label 'l'."),
        (lambda r, a: r.set_label("half_plus_two", "", 1, a), InvalidArgument, "The label is empty."),
        (lambda r, a: r.set_label("half_plus_two", "l" * 1025, 1, a), InvalidArgument, "1025 bytes"),
        (lambda r, a: r.put_model(ModelSpec("a\0b", "/x"), Owner.ADMIN, a), InvalidArgument, "holds a NUL"),
        (lambda r, a: r.put_model(ModelSpec("ok", "/\udc80"), Owner.ADMIN, a), InvalidArgument, "not valid UTF-8"),
        (lambda r, a: r.put_model(SPEC, Owner.MODELMESH, a), AlreadyExists, "belongs to admin, not to modelmesh"),
        (lambda r, a: r.remove_model("half_plus_two", Owner.CONFIG, a), AlreadyExists, "belongs to admin"),
        (lambda r, a: r.model("nix"), NotFound, "Model 'nix' is not known."),
    ],
)
def test_refusals(
    registry: Registry, actor: Actor, model: str, call: Any, error: type[BridgeError], sentence: str
) -> None:
    before = registry.events()
    with pytest.raises(error, match=sentence):
        call(registry, actor)
    assert registry.events() == before
    assert [found.name for found in registry.models()] == [model]


@pytest.mark.parametrize("name", ["a b", "ünï", "a/b", "'; drop table models; --", "%s", "x" * 1024, "🙂"])
def test_any_valid_name_is_kept(registry: Registry, actor: Actor, name: str) -> None:
    registry.put_model(ModelSpec(name, "/b", labels={name: 1}), Owner.ADMIN, actor)
    assert registry.model(name).labels == {name: 1}
    assert registry.verify_chain() is None
