"""Pins, rollbacks and provenance as the registry keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import FailedPrecondition, NotFound
from bridge.registry import Actor, ModelSpec, Registry
from bridge.registry.live import Move, ServedVersion
from bridge.registry.records import Owner
from bridge.registry.rollback_records import LabelRollback, ModelRollback, PinnedContent, Provenance
from bridge.serving.routes import VersionState
from tests.registry.conftest import ManualClock

LATEST, FIRST = {"latest": {"num_versions": 1}}, {"specific": {"versions": [1]}}
SPEC = ModelSpec("m", "/models/m", policy=LATEST, labels={"stable": 2})
OTHER = ModelSpec("other", "/models/other", policy=LATEST)
CONTENTS = (PinnedContent(1, "f1", "/models/m/1"),)
PINNED = {"versions": [{"version": 1, "fingerprint": "f1", "path": "/models/m/1"}]}
SEEN = Provenance("m", 1, "i1", "f1", "/models/m/1", 7, {"uuid": "u"}, ("serving_default",), (("a", 1, 2, 3, "s"),))


def apply(registry: Registry, actor: Actor, *specs: ModelSpec, hash: str, polled: bool = True) -> bool:
    return registry.apply_config("start" if polled else "client", hash, "text", specs, actor, polled=polled).applied


def rollback(spec: ModelSpec = SPEC, expected: ModelSpec | None = SPEC) -> ModelRollback:
    wanted = expected.wanted() if expected is not None else None
    return ModelRollback(spec, Owner.CONFIG, CONTENTS, wanted, "#7", {"versions": [2]}, {"versions": [1]})


def told(registry: Registry, since: int) -> list[tuple[str, Any, Any]]:
    events = registry.events(after=since, limit=1000)
    return [(event.action, event.before, event.after) for event in events]


def pinned(registry: Registry) -> tuple[int, ...] | None:
    pin = registry.model("m").pin
    return pin.versions if pin is not None else None


@pytest.fixture
def configured(registry: Registry, actor: Actor) -> Registry:
    apply(registry, actor, SPEC, OTHER, hash="one")
    return registry


def test_a_rollback_is_one_transaction_with_all_its_events(configured: Registry, actor: Actor) -> None:
    before = configured.events(limit=1000)[-1].seq
    spec = replace(SPEC, policy=FIRST, labels={"stable": 1, "old": 1})
    configured.roll_back_model(rollback(spec), actor)
    model = configured.model("m")
    assert (model.policy, model.labels, model.base_path) == (FIRST, {"stable": 1, "old": 1}, "/models/m")
    assert model.pin is not None
    assert (model.pin.contents, model.pin.entry) == (CONTENTS, SPEC.wanted())
    assert told(configured, before) == [
        ("policy set", SPEC.wanted(), replace(SPEC, policy=FIRST).wanted()),
        ("label set", None, {"version": 1}),
        ("label set", {"version": 2}, {"version": 1}),
        ("rollback pinned", None, PINNED),
        ("rolled back", {"versions": [2]}, {"versions": [1], "to": "#7"}),
    ]


def test_a_model_that_was_changed_meanwhile_is_left_alone(configured: Registry, actor: Actor) -> None:
    configured.set_label("m", "stable", 3, actor)
    before = configured.events(limit=1000)[-1].seq
    with pytest.raises(FailedPrecondition, match="Model 'm' was changed meanwhile"):
        configured.roll_back_model(rollback(), actor)
    assert told(configured, before) == []
    assert pinned(configured) is None


def test_a_pin_survives_restarts_and_what_leaves_its_entry_as_it_is(configured: Registry, actor: Actor) -> None:
    configured.roll_back_model(rollback(), actor)
    assert not apply(configured, actor, SPEC, OTHER, hash="one")
    assert pinned(configured) == (1,)
    assert apply(configured, actor, SPEC, hash="two")
    assert apply(configured, actor, SPEC, replace(OTHER, base_path="/elsewhere"), hash="three", polled=False)
    assert pinned(configured) == (1,)


@pytest.mark.parametrize("polled", [True, False])
def test_another_entry_lifts_the_pin(configured: Registry, actor: Actor, polled: bool) -> None:
    configured.roll_back_model(rollback(), actor)
    before = configured.events(limit=1000)[-1].seq
    assert apply(configured, actor, replace(SPEC, policy=FIRST), OTHER, hash="two", polled=polled)
    assert pinned(configured) is None
    assert ("rollback unpinned", PINNED, None) in told(configured, before)


def test_a_model_that_came_back_stays_until_another_configuration_comes(configured: Registry, actor: Actor) -> None:
    assert apply(configured, actor, OTHER, hash="two", polled=False)
    configured.roll_back_model(rollback(expected=None), actor)
    model = configured.model("m")
    assert (model.owner, model.labels, model.pin and model.pin.entry) == (Owner.CONFIG, {"stable": 2}, None)
    assert not apply(configured, actor, OTHER, hash="two", polled=False)
    assert pinned(configured) == (1,)
    assert apply(configured, actor, OTHER, hash="three", polled=False)
    with pytest.raises(NotFound):
        configured.model("m")


def test_a_later_rollback_replaces_the_pin(configured: Registry, actor: Actor) -> None:
    configured.roll_back_model(rollback(), actor)
    before = configured.events(limit=1000)[-1].seq
    two = PinnedContent(2, "f2", "/models/m/2")
    configured.roll_back_model(replace(rollback(), contents=(two,)), actor)
    assert pinned(configured) == (2,)
    assert [action for action, _, _ in told(configured, before)] == ["rollback pinned", "rolled back"]


def test_unpinning(configured: Registry, actor: Actor) -> None:
    assert not configured.unpin("m", actor)
    configured.roll_back_model(rollback(), actor)
    assert configured.unpin("m", actor)
    assert pinned(configured) is None
    with pytest.raises(NotFound):
        configured.unpin("nobody", actor)


@pytest.mark.parametrize(("version", "labels"), [(1, {"stable": 1}), (None, {})])
def test_a_label_goes_back(configured: Registry, actor: Actor, version: int | None, labels: dict[str, int]) -> None:
    configured.roll_back_label(LabelRollback("m", "stable", version, 2, "#7"), actor)
    assert configured.model("m").labels == labels
    last = configured.events(limit=1000)[-1]
    after = {"to": "#7"} | ({"version": version} if version else {})
    assert (last.subject, last.action, last.before, last.after) == (
        "label:m/stable",
        "rolled back",
        {"version": 2},
        after,
    )


def test_a_label_that_was_changed_meanwhile_is_left_alone(configured: Registry, actor: Actor) -> None:
    with pytest.raises(FailedPrecondition, match="Label 'stable' of model 'm' was changed meanwhile"):
        configured.roll_back_label(LabelRollback("m", "stable", 1, 3, "#7"), actor)
    assert configured.model("m").labels == {"stable": 2}


def test_provenance_is_written_once_and_told_of_the_version(
    configured: Registry, actor: Actor, clock: ManualClock
) -> None:
    configured.record_version("m", 1, VersionState.AVAILABLE, path="/models/m/1", identity="i1", actor=actor)
    assert configured.versions("m")[0].fingerprint == ""
    seen_at = clock.now()
    assert configured.record_provenance(SEEN, actor)
    [known] = configured.provenance("m")
    assert known == replace(SEEN, first_seen_at=seen_at, last_seen_at=seen_at)
    [version] = configured.versions("m")
    assert (version.fingerprint, version.size, version.state) == ("f1", 7, VersionState.AVAILABLE)
    clock.advance(1)
    before = configured.events(limit=1000)[-1].seq
    assert not configured.record_provenance(SEEN, actor)
    configured.record_version("m", 1, VersionState.UNLOADING, actor=actor)
    configured.record_version("m", 1, VersionState.AVAILABLE, identity="i1", actor=actor)
    assert [event.after["fingerprint"] for event in configured.events(after=before, limit=9)] == ["f1", "f1"]


def test_what_is_live_is_told_once_of_its_content(configured: Registry, actor: Actor) -> None:
    configured.record_version("m", 1, VersionState.AVAILABLE, path="/models/m/1", identity="i1", actor=actor)
    configured.record_moves([Move("model:m", ServedVersion("m", 1, (1,)))], actor)
    before = configured.events(limit=1000)[-1].seq
    configured.record_provenance(SEEN, actor)
    moves = [(was, now) for action, was, now in told(configured, before) if action == "live moved"]
    assert [(was["fingerprint"], now["fingerprint"]) for was, now in moves] == [("", "f1")]


def test_other_content_under_an_old_number_is_told(configured: Registry, actor: Actor) -> None:
    configured.record_version("m", 1, VersionState.AVAILABLE, path="/models/m/1", identity="i1", actor=actor)
    configured.record_provenance(SEEN, actor)
    before = configured.events(limit=1000)[-1].seq
    assert configured.record_found("m", 1, "f9", 9, actor)
    assert not configured.record_found("m", 1, "f9", 9, actor)
    assert configured.record_found("m", 1, "f1", 7, actor)
    one = {"version": 1, **SEEN.content()}
    nine = {"version": 1, "path": "/models/m/1", "fingerprint": "f9"}
    assert told(configured, before) == [
        ("content changed", one, nine | {"size": 9}),
        ("content changed", nine, one),
    ]
    configured.record_version("m", 1, VersionState.AVAILABLE, identity="i9", actor=actor)
    assert configured.versions("m")[0].fingerprint == ""
    before = configured.events(limit=1000)[-1].seq
    configured.record_provenance(replace(SEEN, identity="i9", fingerprint="f9"), actor)
    assert [action for action, _, _ in told(configured, before)] == [
        "provenance recorded",
        "content changed",
        "version observed",
    ]
    assert [item.fingerprint for item in configured.provenance("m", 1)] == ["f9", "f1"]


def test_the_same_content_with_other_times_is_no_other_content(configured: Registry, actor: Actor) -> None:
    configured.record_provenance(SEEN, actor)
    first = configured.provenance("m")[0].first_seen_at
    before = configured.events(limit=1000)[-1].seq
    assert configured.record_provenance(replace(SEEN, identity="touched"), actor)
    assert told(configured, before) == []
    assert {item.first_seen_at for item in configured.provenance("m")} == {first}
