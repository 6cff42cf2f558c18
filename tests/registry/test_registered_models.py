"""Registered models: idempotent, guarded by vmodels, told of by events, never mistaken for an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bridge.errors import AlreadyExists, BridgeError, FailedPrecondition, InvalidArgument
from bridge.registry import Actor, LoadFailureRecord, ModelInfo, RegisteredModel, Registry, SetVModel
from bridge.registry.registered_models import HOUR, assumed_last_use
from tests.registry.conftest import Fleet, ManualClock

INFO = ModelInfo("tensorflow", "models/half_plus_two", '{"storage_key":"local"}')
CONTENT = {"type": INFO.type, "path": INFO.path, "key": INFO.key, "auto_delete": False, "generation": 1}
NOW = ManualClock().now()
THEN = NOW - 6 * HOUR


@pytest.fixture
def model(registry: Registry, actor: Actor) -> RegisteredModel:
    registered, created = registry.register_model("m", INFO, False, THEN, actor)
    assert created
    return registered


def story(registry: Registry) -> list[tuple[str, str, Any, Any]]:
    return [(event.subject, event.action, event.before, event.after) for event in registry.events(after=1)]


def test_a_model_comes_and_goes(registry: Registry, actor: Actor, model: RegisteredModel) -> None:
    assert model == RegisteredModel("m", INFO, False, 1, THEN, NOW)
    assert registry.registered_model("m") == model
    assert registry.registered_models() == (model,)
    assert registry.unregister_model("m", actor) == model
    assert registry.unregister_model("m", actor) is None
    assert registry.registered_model("m") is None
    assert registry.registered_models() == ()
    assert story(registry) == [
        ("model:m", "model registered", None, CONTENT),
        ("model:m", "model unregistered", CONTENT, None),
    ]


def test_the_same_registration_is_no_change(registry: Registry, actor: Actor, model: RegisteredModel) -> None:
    before = registry.events()
    assert registry.register_model("m", INFO, True, THEN, actor) == (model, False)
    assert registry.events() == before


def test_a_generation_is_never_used_twice(
    open_registry: Callable[..., Registry], actor: Actor, model: RegisteredModel, registry: Registry
) -> None:
    registry.register_model("other", INFO, False, THEN, actor)
    registry.unregister_model("other", actor)
    registry.unregister_model("m", actor)
    anew, created = open_registry().register_model("m", INFO, False, THEN, actor)
    assert created
    assert anew.generation == 3


@pytest.mark.parametrize("later", [ModelInfo("onnx", INFO.path, INFO.key), ModelInfo(INFO.type), ModelInfo("T")])
def test_other_content_is_refused(registry: Registry, actor: Actor, model: RegisteredModel, later: ModelInfo) -> None:
    before = registry.events()
    with pytest.raises(AlreadyExists, match=r"^Model already exists with different attribute values$"):
        registry.register_model("m", later, False, NOW, actor)
    assert (registry.registered_model("m"), registry.events()) == (model, before)


@pytest.mark.parametrize(
    ("id", "info", "sentence"),
    [
        ("", ModelInfo(""), "^must provide non-empty modelId$"),
        ("m", ModelInfo("", "/p"), "^Must provide non-empty model type string$"),
        ("m\0", INFO, "The model id 'm.x00' holds a NUL"),
        ("m" * 1025, INFO, "1025 bytes; at most 1024"),
        ("m", ModelInfo("t", key="\ud800"), "The key of model 'm' holds a NUL or is not valid Unicode"),
    ],
)
def test_refusals(registry: Registry, actor: Actor, id: str, info: ModelInfo, sentence: str) -> None:
    before = registry.events()
    with pytest.raises(InvalidArgument, match=sentence):
        registry.register_model(id, info, False, NOW, actor)
    assert (registry.registered_models(), registry.events()) == ((), before)


@pytest.mark.parametrize("id", ["a b", "a/../b", "..", "'; drop table vmodels; --", "$(id)", '"', "ünï🙂", "x" * 1024])
def test_any_valid_id_is_kept(registry: Registry, actor: Actor, id: str) -> None:
    registry.register_model(id, INFO, False, NOW, actor)
    assert [model.id for model in registry.registered_models()] == [id]
    assert registry.registered_model(id) is not None


def test_ids_that_cannot_be_kept_are_not_taken_for_others(registry: Registry, actor: Actor) -> None:
    """A NUL is written as an escape, which may be the id of another model."""
    registry.register_model("m\\x00", INFO, False, NOW, actor)
    assert registry.registered_model("m\0") is None
    assert registry.vmodel("m\0") is None
    assert registry.unregister_model("m\0", actor) is None
    registry.touch_registered({"m\0": NOW + 1})
    assert [model.last_used_at for model in registry.registered_models()] == [NOW]


def test_a_model_with_referents_stays(registry: Registry, actor: Actor, model: RegisteredModel) -> None:
    registry.register_model("n", INFO, False, THEN, actor)
    registry.set_vmodel(SetVModel("v", "m"), Fleet(), actor)
    registry.set_vmodel(SetVModel("v", "n"), Fleet(m=1), actor)
    for id in ("m", "n"):
        with pytest.raises(FailedPrecondition, match=f"^Model {id} has referents$"):
            registry.unregister_model(id, actor)
    registry.delete_vmodel("v", "", actor)
    for id in ("m", "n"):
        assert registry.unregister_model(id, actor) is not None


@pytest.mark.parametrize(
    ("load_now", "given", "expected"),
    [
        (True, 0, NOW - HOUR),
        (False, 0, NOW - 6 * HOUR),
        (True, 5, 5),
        (False, NOW - 1, NOW - 1),
        (False, NOW, NOW),
        (True, 2**63, NOW),
    ],
)
def test_when_a_new_model_counts_as_used(load_now: bool, given: int, expected: int) -> None:
    assert assumed_last_use(NOW, load_now, given) == expected


@pytest.mark.parametrize(("at", "kept"), [(THEN - 1, THEN), (THEN + HOUR, THEN), (THEN + HOUR + 1, THEN + HOUR + 1)])
def test_a_repeated_registration_moves_the_last_use_by_hours_only(
    registry: Registry, actor: Actor, model: RegisteredModel, at: int, kept: int
) -> None:
    assert registry.register_model("m", INFO, False, at, actor)[0].last_used_at == kept
    assert registry.registered_models()[0].last_used_at == kept


def test_uses_are_kept_in_one_write_without_an_event(registry: Registry, actor: Actor, model: RegisteredModel) -> None:
    registry.register_model("n", INFO, False, NOW, actor)
    before = registry.events()
    registry.touch_registered({"m": NOW, "n": NOW - 1, "gone": NOW})
    registry.touch_registered({})
    assert [found.last_used_at for found in registry.registered_models()] == [NOW, NOW]
    assert registry.events() == before


def test_load_failures(registry: Registry, actor: Actor, model: RegisteredModel, clock: ManualClock) -> None:
    assert registry.record_load_failure("m", "one", 13, "no such op\0", actor)
    clock.advance(1)
    assert registry.record_load_failure("m", "two", 3, "bad", actor, generation=1)
    one, two = LoadFailureRecord("one", 13, "no such op\\x00", NOW), LoadFailureRecord("two", 3, "bad", NOW + 1)
    assert registry.registered_models()[0].failures == (two, one)
    assert registry.forget_load_failures("m", ["one", "nix"], actor)
    assert not registry.forget_load_failures("m", ["one"], actor)
    assert registry.registered_model("m") == RegisteredModel("m", INFO, False, 1, THEN, NOW, (two,))
    failure = {"instance": "one", "code": 13, "message": "no such op\\x00"}
    assert story(registry)[1:] == [
        ("model:m", "load failed", None, failure),
        ("model:m", "load failed", None, {"instance": "two", "code": 3, "message": "bad"}),
        ("model:m", "load failure forgotten", failure, None),
    ]


def test_a_failure_that_repeats_is_told_once(
    registry: Registry, actor: Actor, model: RegisteredModel, clock: ManualClock
) -> None:
    for message in ("bad", "bad", "worse", "worse"):
        clock.advance(1)
        registry.record_load_failure("m", "one", 13, message, actor)
    assert [after["message"] for _, _, _, after in story(registry)[1:]] == ["bad", "worse"]
    assert registry.registered_models()[0].failures == (LoadFailureRecord("one", 13, "worse", NOW + 4),)


def test_a_failure_of_a_model_that_is_gone(registry: Registry, actor: Actor, model: RegisteredModel) -> None:
    before = registry.events()
    assert not registry.record_load_failure("nix", "one", 13, "bad", actor)
    assert not registry.record_load_failure("m", "one", 13, "bad", actor, generation=0)
    assert not registry.forget_load_failures("nix", ["one"], actor)
    assert (registry.registered_model("m"), registry.events()) == (model, before)


def test_failures_go_with_their_model(registry: Registry, actor: Actor, model: RegisteredModel) -> None:
    registry.record_load_failure("m", "one", 13, "bad", actor)
    registry.unregister_model("m", actor)
    assert registry.register_model("m", INFO, False, THEN, actor)[0].failures == ()
    assert registry.registered_models()[0].failures == ()


def test_many_bridges_register_and_unregister(open_registry: Callable[..., Registry], actor: Actor) -> None:
    """Nothing is created twice, and every life of a model is told from begin to end."""
    registries = [open_registry() for _ in range(8)]

    def live(registry: Registry) -> list[int]:
        generations = []
        for _ in range(12):
            model, created = registry.register_model("m", INFO, False, THEN, actor)
            generations += [model.generation] if created else []
            try:
                registry.unregister_model("m", actor)
            except BridgeError as error:
                pytest.fail(error.message)
        return generations

    with ThreadPoolExecutor(8) as pool:
        created = [generation for lives in pool.map(live, registries) for generation in lives]
    assert sorted(created) == list(range(1, len(created) + 1))
    actions = [event.action for event in registries[0].events(after=1, limit=10_000)]
    assert actions == ["model registered", "model unregistered"] * len(created)
    assert registries[0].registered_models() == ()
    assert registries[0].verify_chain() is None
