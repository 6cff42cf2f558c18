"""vmodels: transitions as compare-and-set, references and auto-delete, events, and requests that repeat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from threading import Barrier
from typing import Any

import pytest

from bridge.errors import AlreadyExists, BridgeError, FailedPrecondition, InvalidArgument, NotFound
from bridge.registry import (
    Actor,
    DeleteOutcome,
    ModelInfo,
    PromoteOutcome,
    Registry,
    SetVModel,
    SetVModelOutcome,
    VModel,
)
from bridge.registry.database import MODELMESH_LOCK, Database
from bridge.registry.registered_models import HOUR
from tests.registry.conftest import Fleet, ManualClock

NOW = ManualClock().now()
INFO = ModelInfo("tensorflow", "/models/m")
LONG_AGO = NOW - 100 * HOUR
REPEATS = 1000
MEDIAN_SECONDS = 0.002


NOTHING = Fleet()
A_SERVES = Fleet(a=1)


@pytest.fixture
def a(registry: Registry, actor: Actor) -> VModel:
    """The vmodel `v` of `ksp` on the model `a`, which somebody registered before; so are `b` and `c`."""
    for id in ("a", "b", "c"):
        registry.register_model(id, INFO, False, LONG_AGO, actor)
    return registry.set_vmodel(SetVModel("v", "a", owner="ksp"), NOTHING, actor).vmodel


@pytest.fixture
def moving(registry: Registry, actor: Actor, a: VModel) -> VModel:
    """`v` on its way from `a` to `b`."""
    outcome = registry.set_vmodel(SetVModel("v", "b"), A_SERVES, actor)
    assert outcome.in_transition
    return outcome.vmodel


def state(registry: Registry, id: str = "v") -> tuple[str, str, bool]:
    vmodel = registry.vmodel(id)
    assert vmodel is not None
    return vmodel.active, vmodel.target, vmodel.target_failed


def story(registry: Registry, id: str = "v") -> list[str]:
    return [event.action.removeprefix("vmodel ") for event in registry.events(subject=f"vmodel:{id}")]


def model_ids(registry: Registry) -> list[str]:
    return [model.id for model in registry.registered_models()]


def create(registry: Registry, actor: Actor, id: str, target: str, fleet: Fleet = NOTHING) -> SetVModelOutcome:
    """Set `id` to a target that goes with its last vmodel."""
    return registry.set_vmodel(SetVModel(id, target, INFO, auto_delete=True), fleet, actor)


def test_a_vmodel_is_created(registry: Registry, actor: Actor, a: VModel) -> None:
    assert a == VModel("v", "ksp", "a", "a", False, NOW, NOW)
    assert registry.vmodel("v") == a
    assert registry.vmodels() == (a,)
    (event,) = registry.events(subject="vmodel:v")
    assert (event.action, event.before, event.actor) == ("vmodel created", None, "alice")
    assert event.after == {"owner": "ksp", "active": "a", "target": "a", "target_failed": False}


def test_a_vmodel_is_created_with_its_target(registry: Registry, actor: Actor) -> None:
    outcome = create(registry, actor, "v", "t")
    assert outcome == SetVModelOutcome(VModel("v", "", "t", "t", False, NOW, NOW), None, True, target_created=True)
    target = registry.registered_model("t")
    assert (target.info, target.auto_delete, target.last_used_at) == (INFO, True, NOW - 6 * HOUR)
    assert [event.action for event in registry.events(after=1)] == ["model registered", "vmodel created"]
    assert "owner" not in registry.events()[-1].after


@pytest.mark.parametrize(("owner", "default", "kept"), [("", "", ""), ("", "d", "d"), ("o", "d", "o")])
def test_the_owner_of_a_new_vmodel(registry: Registry, actor: Actor, owner: str, default: str, kept: str) -> None:
    request = SetVModel("v", "t", INFO, owner=owner, default_owner=default)
    assert registry.set_vmodel(request, NOTHING, actor).vmodel.owner == kept


@pytest.mark.parametrize("fleet", [NOTHING, Fleet(a=1, b=1)])
def test_a_target_that_can_take_over_does_so_at_once(
    registry: Registry, actor: Actor, a: VModel, clock: ManualClock, fleet: Fleet
) -> None:
    clock.advance(7)
    outcome = registry.set_vmodel(SetVModel("v", "b"), fleet, actor)
    promoted = replace(a, active="b", target="b", updated_at=NOW + 7)
    assert outcome == SetVModelOutcome(promoted, a, True, active_copies=fleet.copies("a"))
    assert registry.vmodel("v") == promoted
    assert story(registry) == ["created", "promoted"]


def test_a_transition_and_its_end(registry: Registry, actor: Actor, a: VModel, moving: VModel) -> None:
    assert moving == replace(a, target="b")
    assert registry.promote_vmodel("v", "a", "b", actor) == PromoteOutcome(True, replace(a, active="b", target="b"))
    assert story(registry) == ["created", "transition started", "promoted"]
    assert [event.after["active"] for event in registry.events(subject="vmodel:v")] == ["a", "a", "b"]


@pytest.mark.parametrize(("active", "target"), [("a", "c"), ("b", "b"), ("c", "b")])
def test_a_promotion_that_came_too_late(
    registry: Registry, actor: Actor, moving: VModel, active: str, target: str
) -> None:
    assert registry.promote_vmodel("v", active, target, actor) == PromoteOutcome(False, moving)
    assert registry.promote_vmodel("nix", active, target, actor) == PromoteOutcome(False, None)
    assert story(registry) == ["created", "transition started"]


def test_a_steady_vmodel_is_not_promoted(registry: Registry, actor: Actor, a: VModel) -> None:
    assert registry.promote_vmodel("v", "a", "a", actor) == PromoteOutcome(False, a)


def test_a_transition_fails_resumes_and_is_rolled_back(registry: Registry, actor: Actor, moving: VModel) -> None:
    assert not registry.fail_vmodel("v", "b", False, actor)
    assert registry.fail_vmodel("v", "b", True, actor, "no such op")
    assert not registry.fail_vmodel("v", "b", True, actor, "no such op")
    assert state(registry) == ("a", "b", True)
    assert registry.events(subject="vmodel:v")[-1].after["cause"] == "no such op"
    assert registry.fail_vmodel("v", "b", False, actor)
    assert registry.fail_vmodel("v", "b", True, actor)
    outcome = registry.set_vmodel(SetVModel("v", "a"), A_SERVES, actor)
    assert (outcome.changed, outcome.in_transition, state(registry)) == (True, False, ("a", "a", False))
    assert story(registry)[1:] == [
        "transition started",
        "transition failed",
        "transition resumed",
        "transition failed",
        "rolled back",
    ]


def test_only_the_target_of_a_transition_fails(registry: Registry, actor: Actor, moving: VModel) -> None:
    assert not registry.fail_vmodel("v", "a", True, actor)
    assert not registry.fail_vmodel("nix", "b", True, actor)
    registry.promote_vmodel("v", "a", "b", actor)
    assert not registry.fail_vmodel("v", "b", True, actor)
    assert state(registry) == ("b", "b", False)


def test_a_failed_target_may_be_forced_or_superseded(registry: Registry, actor: Actor, moving: VModel) -> None:
    registry.fail_vmodel("v", "b", True, actor)
    registry.set_vmodel(SetVModel("v", "c"), A_SERVES, actor)
    assert state(registry) == ("a", "c", False)
    registry.fail_vmodel("v", "c", True, actor)
    assert not registry.set_vmodel(SetVModel("v", "c"), A_SERVES, actor).changed
    assert state(registry) == ("a", "c", True)
    assert registry.set_vmodel(SetVModel("v", "c", force=True), A_SERVES, actor).changed
    assert state(registry) == ("c", "c", False)


def test_a_known_failure_keeps_a_target_from_taking_over(registry: Registry, actor: Actor, a: VModel) -> None:
    registry.record_load_failure("b", "one", 13, "bad", actor)
    assert registry.set_vmodel(SetVModel("v", "b"), NOTHING, actor).in_transition
    assert not registry.set_vmodel(SetVModel("v", "b", force=True), NOTHING, actor).in_transition
    registry.set_vmodel(SetVModel("v", "a"), NOTHING, actor)
    registry.forget_load_failures("b", ["one"], actor)
    assert not registry.set_vmodel(SetVModel("v", "b"), NOTHING, actor).in_transition


def test_copies_of_an_earlier_model_do_not_count(registry: Registry, actor: Actor, a: VModel) -> None:
    """A model that was unregistered may still be on its way out of the instances."""
    registry.unregister_model("b", actor)
    assert registry.set_vmodel(SetVModel("v", "b", INFO), Fleet(a=1, b=1), actor).in_transition


@pytest.mark.parametrize(
    ("request_", "error", "sentence"),
    [
        (SetVModel("", "b"), InvalidArgument, "Must provide vModelId"),
        (SetVModel("v", ""), InvalidArgument, "Must provide target modelId for vmodel v"),
        (SetVModel("v", "n", ModelInfo("", "/p")), InvalidArgument, "Must provide non-empty model type string"),
        (SetVModel("v", "n"), NotFound, "Target model n not found"),
        (SetVModel("v", "n", ModelInfo("")), NotFound, "Target model n not found"),
        (
            SetVModel("v", "b", ModelInfo("onnx")),
            AlreadyExists,
            "Target model b already exists with different attribute values",
        ),
        (
            SetVModel("v", "a", ModelInfo("onnx")),
            AlreadyExists,
            "Target model a already exists with different attribute values",
        ),
        (
            SetVModel("v", "n", INFO, owner="isvc"),
            AlreadyExists,
            'vmodel v already exists with different owner "ksp"',
        ),
        (SetVModel("v", "a", owner="isvc"), AlreadyExists, 'vmodel v already exists with different owner "ksp"'),
        (
            SetVModel("v", "b", owner="isvc", expected_target="a"),
            AlreadyExists,
            'vmodel v already exists with different owner "ksp"',
        ),
        (
            SetVModel("v", "n", INFO, expected_target="b"),
            FailedPrecondition,
            "Existing target model a does not match expected b",
        ),
        (SetVModel("w", "n", INFO, expected_target="b"), FailedPrecondition, "vmodel w not found"),
        (SetVModel("w", "n", INFO, update_only=True), NotFound, "vmodel w not found"),
    ],
)
def test_refused_requests_change_nothing(
    registry: Registry, actor: Actor, a: VModel, request_: SetVModel, error: type[BridgeError], sentence: str
) -> None:
    before = registry.vmodels(), registry.registered_models(), registry.events()
    with pytest.raises(error) as raised:
        registry.set_vmodel(request_, A_SERVES, actor)
    assert raised.value.message == sentence
    assert (registry.vmodels(), registry.registered_models(), registry.events()) == before


@pytest.mark.parametrize(
    "request_",
    [
        SetVModel("v", "a"),
        SetVModel("v", "a", INFO, auto_delete=True, load_now=True, owner="ksp"),
        SetVModel("v", "a", ModelInfo(""), update_only=True),
        SetVModel("v", "a", force=True, expected_target="a"),
        SetVModel("v", "a", expected_target="wrong"),
    ],
)
def test_the_same_again_is_no_change(registry: Registry, actor: Actor, a: VModel, request_: SetVModel) -> None:
    before = registry.events()
    assert registry.set_vmodel(request_, Fleet(a=2), actor) == SetVModelOutcome(a, a, False, active_copies=2)
    assert registry.events() == before


def test_expected_targets_are_compared_where_something_changes(
    registry: Registry, actor: Actor, moving: VModel
) -> None:
    assert not registry.set_vmodel(SetVModel("v", "b", expected_target="x"), A_SERVES, actor).changed
    with pytest.raises(FailedPrecondition, match=r"^Existing target model b does not match expected x$"):
        registry.set_vmodel(SetVModel("v", "b", expected_target="x", force=True), A_SERVES, actor)
    assert registry.set_vmodel(SetVModel("v", "c", expected_target="b"), A_SERVES, actor).changed
    assert registry.set_vmodel(SetVModel("w", "c", expected_target="c"), A_SERVES, actor).changed


def test_targets_go_with_their_last_reference(registry: Registry, actor: Actor) -> None:
    create(registry, actor, "v", "t1")
    create(registry, actor, "w", "t1")
    assert create(registry, actor, "v", "t2").deleted == ()
    assert create(registry, actor, "w", "t2").deleted == ("t1",)
    assert model_ids(registry) == ["t2"]
    assert registry.delete_vmodel("v", "", actor).deleted == ()
    assert registry.delete_vmodel("w", "", actor).deleted == ("t2",)
    assert model_ids(registry) == []
    gone = registry.events(action="model auto-deleted")
    assert [(event.subject, event.after) for event in gone] == [
        ("model:t1", {"last_vmodel": "w"}),
        ("model:t2", {"last_vmodel": "w"}),
    ]


def test_superseded_rolled_back_and_forced_targets_leave_nothing(registry: Registry, actor: Actor) -> None:
    fleet = Fleet(t1=1)
    create(registry, actor, "v", "t1")
    create(registry, actor, "v", "t2", fleet)
    assert create(registry, actor, "v", "t3", fleet).deleted == ("t2",)
    assert create(registry, actor, "v", "t1", fleet).deleted == ("t3",)
    create(registry, actor, "v", "t4", fleet)
    forced = registry.set_vmodel(SetVModel("v", "t4", force=True), fleet, actor)
    assert (forced.deleted, model_ids(registry)) == (("t1",), ["t4"])
    create(registry, actor, "v", "t5", Fleet(t4=1))
    assert registry.promote_vmodel("v", "t4", "t5", actor).deleted == ("t4",)
    create(registry, actor, "v", "t6", Fleet(t5=1))
    registry.record_load_failure("t6", "one", 13, "bad", actor)
    both = registry.set_vmodel(SetVModel("v", "t7", INFO, auto_delete=True, force=True), Fleet(t5=1), actor)
    assert (both.deleted, model_ids(registry)) == (("t5", "t6"), ["t7"])
    assert registry.delete_vmodel("v", "", actor).deleted == ("t7",)
    assert (registry.vmodels(), registry.registered_models()) == ((), ())
    assert registry.verify_chain() is None


def test_the_flag_of_a_model_is_that_of_its_registration(registry: Registry, actor: Actor, a: VModel) -> None:
    create(registry, actor, "w", "a")
    registry.delete_vmodel("v", "", actor)
    assert registry.delete_vmodel("w", "", actor).deleted == ()
    assert model_ids(registry) == ["a", "b", "c"]


@pytest.mark.parametrize("owner", ["", "ksp"])
def test_a_vmodel_is_deleted(registry: Registry, actor: Actor, moving: VModel, owner: str) -> None:
    assert registry.delete_vmodel("v", owner, actor) == DeleteOutcome(moving)
    assert registry.vmodel("v") is None
    assert registry.delete_vmodel("v", owner, actor) == DeleteOutcome(None)
    assert story(registry)[-1] == "deleted"


def test_another_owner_deletes_nothing(registry: Registry, actor: Actor, a: VModel) -> None:
    before = registry.events()
    assert registry.delete_vmodel("v", "isvc", actor) == DeleteOutcome(None)
    assert (registry.vmodel("v"), registry.events()) == (a, before)


@pytest.mark.parametrize(
    ("load_now", "used", "expected"),
    [(False, LONG_AGO, NOW - 6 * HOUR), (True, LONG_AGO, NOW - HOUR), (True, NOW, NOW)],
)
def test_the_target_of_a_new_vmodel_counts_as_used(
    registry: Registry, actor: Actor, load_now: bool, used: int, expected: int
) -> None:
    registry.register_model("t", INFO, False, used, actor)
    registry.set_vmodel(SetVModel("v", "t", load_now=load_now), NOTHING, actor)
    assert registry.registered_models()[0].last_used_at == expected


@pytest.mark.parametrize(("used", "expected"), [(LONG_AGO, NOW - 5), (NOW, NOW)])
def test_a_target_is_as_recent_as_what_it_replaces(
    registry: Registry, actor: Actor, a: VModel, used: int, expected: int
) -> None:
    registry.touch_registered({"a": NOW - 5, "b": used})
    registry.set_vmodel(SetVModel("v", "b"), A_SERVES, actor)
    registry.set_vmodel(SetVModel("w", "b"), A_SERVES, actor)
    registry.set_vmodel(SetVModel("v", "new", INFO), A_SERVES, actor)
    assert {model.id: model.last_used_at for model in registry.registered_models()} == {
        "a": NOW - 5,
        "b": expected,
        "c": LONG_AGO,
        "new": NOW - 5,
    }


def test_a_restart_finds_the_transition(
    open_registry: Callable[..., Registry], registry: Registry, actor: Actor, moving: VModel
) -> None:
    registry.fail_vmodel("v", "b", True, actor)
    registry.close()
    again = open_registry()
    assert again.vmodel("v") == replace(moving, target_failed=True)
    assert again.promote_vmodel("v", "a", "b", actor).promoted


def in_parallel(registries: list[Registry], work: Callable[[int, Registry], Any]) -> list[Any]:
    """`work` by all registries at once; what each returned, or the error that it raised."""
    barrier = Barrier(len(registries))

    def run(number: int) -> Any:
        barrier.wait(30)
        try:
            return work(number, registries[number])
        except BridgeError as error:
            return error

    with ThreadPoolExecutor(len(registries)) as pool:
        return list(pool.map(run, range(len(registries))))


def test_one_of_eight_wins_each_compare_and_set(open_registry: Callable[..., Registry], actor: Actor) -> None:
    """Each expects what it read; the others lose with a sentence and without a trace."""
    registries = [open_registry() for _ in range(8)]
    create(registries[0], actor, "v", "start")
    target = "start"
    for turn in range(6):

        def compete(number: int, registry: Registry, turn: int = turn, expected: str = target) -> SetVModelOutcome:
            request = SetVModel("v", f"t{turn}-{number}", INFO, auto_delete=True, expected_target=expected)
            return registry.set_vmodel(request, Fleet(start=1), actor)

        outcomes = in_parallel(registries, compete)
        (winner,) = (outcome for outcome in outcomes if isinstance(outcome, SetVModelOutcome))
        lost = [outcome for outcome in outcomes if outcome is not winner]
        assert {type(error) for error in lost} == {FailedPrecondition}
        assert {error.message for error in lost} == {
            f"Existing target model {winner.vmodel.target} does not match expected {target}"
        }
        target = winner.vmodel.target
        assert model_ids(registries[0]) == sorted({"start", target})
    assert story(registries[0]) == ["created"] + ["transition started"] * 6
    assert registries[0].verify_chain() is None


def test_many_bridges_pull_at_one_vmodel(open_registry: Callable[..., Registry], actor: Actor) -> None:
    """Whatever they do at once, the history is one chain of states and no model is left behind."""
    registries = [open_registry() for _ in range(8)]

    def pull(number: int, registry: Registry) -> None:
        for turn in range(6):
            vmodel = create(registry, actor, "v", f"m{(number + turn) % 4}", Fleet(m0=1, m1=1)).vmodel
            registry.fail_vmodel("v", vmodel.target, turn % 2 == 0, actor)
            registry.promote_vmodel("v", vmodel.active, vmodel.target, actor)
            if turn == number % 3:
                registry.delete_vmodel("v", "", actor)

    assert in_parallel(registries, pull) == [None] * 8
    history = registries[0].events(subject="vmodel:v", limit=10_000)
    for earlier, later in pairwise(history):
        told = {name: value for name, value in (earlier.after or {}).items() if name != "cause"} or None
        assert told == later.before
    registries[0].delete_vmodel("v", "", actor)
    assert (registries[0].vmodels(), registries[0].registered_models()) == ((), ())
    assert registries[0].verify_chain() is None


def test_references_hold_while_models_are_unregistered(open_registry: Callable[..., Registry], actor: Actor) -> None:
    """A vmodel never refers to a model that is gone, whoever was first."""
    registries = [open_registry() for _ in range(8)]

    def race(number: int, registry: Registry) -> None:
        for _ in range(8):
            if number % 2:
                registry.set_vmodel(SetVModel(f"v{number}", "m", INFO), NOTHING, actor)
                registry.delete_vmodel(f"v{number}", "", actor)
            else:
                with suppress(FailedPrecondition):
                    registry.unregister_model("m", actor)

    assert in_parallel(registries, race) == [None] * 8
    assert registries[0].vmodels() == ()


def test_a_request_that_repeats_is_cheap_and_leaves_no_trace(registry: Registry, actor: Actor) -> None:
    """Controllers repeat theirs on every reconcile."""
    request = SetVModel("v", "t", INFO, auto_delete=True, load_now=True, owner="ksp")
    registry.set_vmodel(request, NOTHING, actor)
    before, written, seconds = registry.events(), registry.events_written, []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        outcome = registry.set_vmodel(request, NOTHING, actor)
        seconds.append(time.perf_counter() - begin)
        assert not outcome.changed
    assert (registry.events(), registry.events_written) == (before, written)
    assert statistics.median(seconds) < MEDIAN_SECONDS


@contextmanager
def busy(database: Database) -> Iterator[None]:
    """Another change of vmodels goes on meanwhile."""
    with database._writer.begin() as connection:
        database.lock(connection, MODELMESH_LOCK)
        yield


def test_a_request_that_repeats_does_not_wait_for_others(
    open_registry: Callable[..., Registry], actor: Actor, a: VModel
) -> None:
    mine, others = open_registry(), open_registry()
    with ThreadPoolExecutor(1) as pool, busy(others._database):
        repeated = pool.submit(mine.set_vmodel, SetVModel("v", "a", INFO), NOTHING, actor)
        assert not repeated.result(5).changed
