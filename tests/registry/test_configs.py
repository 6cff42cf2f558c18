"""Configurations: an unchanged one keeps what was changed since, an edited one wins as one event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.errors import AlreadyExists, InvalidArgument
from bridge.registry import Actor, AppliedConfig, ModelSpec, Owner, Registry

ORIGIN = "file:/etc/models.config"


def spec(name: str = "m", **labels: int) -> ModelSpec:
    return ModelSpec(name, f"/models/{name}", policy={"latest": 1}, labels=labels)


def apply(registry: Registry, actor: Actor, digest: str, *specs: ModelSpec, **options: bool) -> AppliedConfig:
    return registry.apply_config(ORIGIN, digest, f"text of {digest}", specs, actor, **options)


def actions(registry: Registry) -> list[str]:
    return [event.action for event in registry.events()]


def test_first_configuration(registry: Registry, actor: Actor) -> None:
    assert apply(registry, actor, "h1", spec(stable=1), spec("n")) == AppliedConfig(True, "", 1)
    assert [(model.name, model.owner, model.labels) for model in registry.models()] == [
        ("m", Owner.CONFIG, {"stable": 1}),
        ("n", Owner.CONFIG, {}),
    ]
    current = registry.current_config()
    assert current is not None
    assert (current.revision, current.origin, current.content_hash, current.text) == (1, ORIGIN, "h1", "text of h1")


def test_an_unchanged_configuration_keeps_later_changes(open_registry: Callable[..., Registry], actor: Actor) -> None:
    first = open_registry()
    apply(first, actor, "h1", spec(stable=1))
    first.set_label("m", "stable", 2, actor)
    first.set_policy("m", {"all": True}, actor)
    before = first.events()
    restarted = open_registry()
    assert apply(restarted, actor, "h1", spec(stable=1)) == AppliedConfig(False, "unchanged", 1)
    assert restarted.labels("m") == {"stable": 2}
    assert restarted.model("m").policy == {"all": True}
    assert restarted.events() == before


def test_an_edited_configuration_wins_as_a_whole(registry: Registry, actor: Actor) -> None:
    apply(registry, actor, "h1", spec(stable=1), spec("old"))
    registry.set_label("m", "stable", 2, actor)
    count = len(registry.events())
    assert apply(registry, actor, "h2", spec(stable=3), spec("new")).revision == 2
    *parts, event = registry.events(after=count)
    assert [(part.action, part.subject) for part in parts] == [
        ("label set", "label:m/stable"),
        ("model added", "model:new"),
        ("model removed", "model:old"),
    ]
    assert event.action == "config applied"
    assert event.before["models"] == {"m": spec(stable=2).wanted(), "old": spec("old").wanted()}
    assert event.after["models"] == {"m": spec(stable=3).wanted(), "new": spec("new").wanted()}
    assert [model.name for model in registry.models()] == ["m", "new"]
    assert [(item.revision, item.current) for item in registry.config_revisions()] == [(1, False), (2, True)]


def test_only_the_rows_of_the_configuration_are_replaced(registry: Registry, actor: Actor) -> None:
    registry.put_model(spec("mesh"), Owner.MODELMESH, actor)
    apply(registry, actor, "h1", spec())
    apply(registry, actor, "h2")
    assert [model.name for model in registry.models()] == ["mesh"]


def test_going_back_to_an_older_content(registry: Registry, actor: Actor) -> None:
    """One bridge alone follows its file; on a shared database an old hash means that another bridge is ahead."""
    apply(registry, actor, "h1", spec(stable=1))
    apply(registry, actor, "h2", spec(stable=2))
    if registry.shared:
        assert apply(registry, actor, "h1", spec(stable=1)) == AppliedConfig(False, "superseded", 2)
        assert registry.labels("m") == {"stable": 2}
    assert apply(registry, actor, "h1", spec(stable=1), takeover=True) == AppliedConfig(True, "", 3)
    assert registry.labels("m") == {"stable": 1}


def test_origins_do_not_disturb_each_other(registry: Registry, actor: Actor) -> None:
    apply(registry, actor, "h1", spec(stable=1))
    reload_ = registry.apply_config("reload", "h9", "text", [spec(stable=9)], actor, polled=False)
    assert reload_ == AppliedConfig(True, "", 2)
    assert apply(registry, actor, "h1", spec(stable=1)).reason == "unchanged"
    assert registry.labels("m") == {"stable": 9}


def test_a_command_is_compared_by_content(registry: Registry, actor: Actor) -> None:
    """A reload with the same text is carried out again if something changed since, else it writes nothing."""
    assert apply(registry, actor, "h1", spec(stable=1), polled=False).applied
    assert apply(registry, actor, "h1", spec(stable=1), polled=False) == AppliedConfig(False, "unchanged", 1)
    registry.set_label("m", "stable", 2, actor)
    assert apply(registry, actor, "h1", spec(stable=1), polled=False) == AppliedConfig(True, "", 2)
    assert registry.labels("m") == {"stable": 1}


def test_a_command_with_the_content_of_another_origin_writes_nothing(registry: Registry, actor: Actor) -> None:
    apply(registry, actor, "h1", spec(stable=1))
    events = registry.events()
    answer = registry.apply_config("RPC", "other", "other text", [spec(stable=1)], actor, polled=False)
    assert (answer.applied, answer.reason) == (False, "unchanged")
    assert registry.events() == events


def test_a_model_on_trial_has_a_history_and_is_not_wanted(registry: Registry, actor: Actor) -> None:
    apply(registry, actor, "h1", spec("n", stable=1))
    registry.introduce_models([spec("m", best=2), spec("n")], Owner.CONFIG, actor)
    assert registry.record_version("m", 2, 20, actor=actor)
    assert [(model.name, model.labels) for model in registry.models()] == [("n", {"stable": 1})]
    assert actions(registry)[-2:] == ["config applied", "version observed"]
    assert apply(registry, actor, "h2", spec("m"), spec("n")).applied
    assert [model.name for model in registry.models()] == ["m", "n"]


def test_a_rejected_configuration_is_told_once_and_never_current(registry: Registry, actor: Actor) -> None:
    apply(registry, actor, "h1", spec(stable=1))
    assert registry.reject_config(ORIGIN, "h2", "typo\0", "line 3: what?", actor)
    assert not registry.reject_config(ORIGIN, "h2", "typo\0", "line 3: what?", actor)
    assert registry.reject_config(ORIGIN, "h3", "typo", "line 4: what?", actor)
    assert apply(registry, actor, "h1", spec(stable=1)).reason == "unchanged"
    current = registry.current_config()
    assert current is not None
    assert current.content_hash == "h1"
    assert actions(registry)[-3:] == ["config applied", "config rejected", "config rejected"]
    (last,) = registry.events(action="config rejected", newest_first=True, limit=1)
    assert last.after == {"origin": ORIGIN, "content_hash": "h3", "revision": 3, "error": "line 4: what?"}


@pytest.mark.parametrize(
    ("specs", "error", "sentence"),
    [
        ([spec(), spec()], InvalidArgument, "Model 'm' is configured more than once"),
        ([spec("mesh")], AlreadyExists, "Model 'mesh' belongs to modelmesh, not to config"),
        ([ModelSpec("", "/x")], InvalidArgument, "The model name is empty"),
        ([ModelSpec("m", "/x", labels={"": 1})], InvalidArgument, "The label of model 'm' is empty"),
    ],
)
def test_a_configuration_that_cannot_hold_changes_nothing(
    registry: Registry, actor: Actor, specs: list[ModelSpec], error: type[Exception], sentence: str
) -> None:
    registry.put_model(spec("mesh"), Owner.MODELMESH, actor)
    apply(registry, actor, "h1", spec("kept"))
    before = registry.events(), registry.models(), registry.config_revisions()
    with pytest.raises(error, match=sentence):
        apply(registry, actor, "h2", *specs)
    assert (registry.events(), registry.models(), registry.config_revisions()) == before
