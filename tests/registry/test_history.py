"""What the history answers: events by filter, the state at a time, differences, and for how long what was live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.errors import BridgeError, Code, InvalidArgument, NotFound
from bridge.registry import Actor, ModelInfo, ModelSpec, Owner, Registry, SetVModel
from bridge.registry.history_records import Aspect, Change, HistoryQuery
from bridge.registry.live import Move, ServedRegistration, ServedVersion
from bridge.registry.records import JsonObject
from bridge.registry.rollback_events import RollbackPinned, RollbackUnpinned
from tests.registry.conftest import Fleet, ManualClock

SECOND = 1_000_000
ALICE = Actor("alice", "CLI", "a better model")
BOB = Actor("bob", "admin", "the canary is fine")
RECONCILE = Actor("bridge", "reconcile")
POLLER = Actor("bridge", "poller")
START, AVAILABLE, END = 10, 30, 50


class Story:
    """A bridge's life, a second between two things that happen."""

    def __init__(self, registry: Registry, clock: ManualClock) -> None:
        self.registry = registry
        self.clock = clock

    def tick(self) -> int:
        """The time a second later."""
        self.clock.advance(SECOND)
        return self.clock.time

    def add(self, name: str = "m", **labels: int) -> None:
        self.tick()
        self.registry.put_model(ModelSpec(name, f"/models/{name}", labels=labels), Owner.CONFIG, ALICE)

    def serve(self, version: int, *others: int, model: str = "m") -> None:
        """A version is found and serves an unversioned request, beside `others`."""
        self.observe(version, START, model=model)
        self.observe(version, AVAILABLE, model=model)
        self.move(Move(f"model:{model}", ServedVersion(model, version, (version, *others))))

    def observe(self, version: int, state: int, model: str = "m") -> None:
        self.tick()
        path, actor = f"/models/{model}/{version}", POLLER if state == START else RECONCILE
        self.registry.record_version(model, version, state, path=path, fingerprint=f"f{version}", actor=actor)

    def move(self, *moves: Move) -> int:
        at = self.tick()
        self.registry.record_moves(moves, RECONCILE)
        return at


@pytest.fixture
def story(registry: Registry, clock: ManualClock) -> Story:
    return Story(registry, clock)


def served(version: int, *others: int, model: str = "m") -> JsonObject:
    """The live state of a version."""
    path = f"/models/{model}/{version}"
    return {
        "model": model,
        "version": version,
        "versions": [version, *others],
        "fingerprint": f"f{version}",
        "path": path,
    }


def test_what_served_since_when_put_there_by_whom_from_which_files(story: Story) -> None:
    story.add()
    story.serve(1)
    since = story.clock.time
    story.tick()
    (model,) = story.registry.state_at(story.clock.time, "model:m").subjects
    assert model.live is not None
    assert (model.live.state, model.live.since) == (served(1), since)
    assert (model.live.actor, model.live.source, model.live.action) == ("bridge", "poller", "version observed")
    assert model.wanted is not None
    assert (model.wanted.actor, model.wanted.reason) == ("alice", "a better model")
    assert model.wanted.state == {"base_path": "/models/m", "platform": "tensorflow", "policy": {}}
    assert [(fact.state or {})["state"] for fact in model.observed] == ["AVAILABLE"]


def test_a_move_names_whoever_wanted_it(story: Story) -> None:
    story.add()
    story.serve(1)
    story.serve(2, 1)
    story.registry.set_policy("m", {"specific": [1]}, BOB)
    at = story.move(Move("model:m", ServedVersion("m", 1, (1,))))
    (model,) = story.registry.state_at(at, "model:m").subjects
    assert model.live is not None
    assert (model.live.actor, model.live.reason, model.live.action) == ("bob", "the canary is fine", "policy set")


def test_a_version_that_comes_back_is_there_for_the_reason_of_before(story: Story) -> None:
    story.add(stable=1)
    story.serve(1)
    label = Move("label:m/stable", ServedVersion("m", 1, (1,)))
    story.move(label)
    story.move(Move("label:m/stable", None))
    story.registry.record_version("m", 1, 0, actor=RECONCILE)
    story.observe(1, START)
    at = story.move(label)
    (found,) = story.registry.state_at(at, "label:m/stable").subjects
    assert found.live is not None
    assert (found.live.actor, found.live.action, found.live.since) == ("bridge", "version observed", at)
    first, second = story.registry.live_intervals("label:m/stable")
    assert (first.cause, first.actor) == (second.cause, second.actor)


def test_a_move_that_is_no_news_writes_nothing(story: Story) -> None:
    story.add()
    story.serve(1)
    count = len(story.registry.events())
    story.move(Move("model:m", ServedVersion("m", 1, (1,))), Move("model:other", None))
    assert len(story.registry.events()) == count


def test_labels_are_subjects_of_their_own(story: Story) -> None:
    story.add(stable=1)
    before = story.clock.time
    story.tick()
    story.registry.set_label("m", "stable", 2, BOB)
    story.tick()
    story.registry.remove_label("m", "stable", ALICE)
    states = [story.registry.state_at(at, "label:m/stable").subjects[0].wanted for at in (before, before + SECOND)]
    assert [(fact.state, fact.actor) for fact in states if fact] == [({"version": 1}, "alice"), ({"version": 2}, "bob")]
    (gone,) = story.registry.state_at(story.clock.time, "label:m/stable").subjects
    assert gone.wanted is not None
    assert (gone.wanted.state, gone.wanted.action) == (None, "label removed")


def test_a_pin_is_a_part_of_what_is_wanted_until_it_is_lifted(story: Story) -> None:
    registry = story.registry
    story.add()
    pin = {"versions": [1]}
    found = []
    for event in (RollbackPinned("m", None, pin), None, RollbackUnpinned("m", pin, None)):
        story.tick()
        if event is None:
            registry.set_policy("m", {"latest": 2}, BOB)
        else:
            registry.append(event, ALICE)
        (model,) = registry.state_at(story.clock.time, "model:m").subjects
        assert model.wanted is not None
        assert model.wanted.state is not None
        found.append((model.wanted.state.get("pin"), model.wanted.action, model.wanted.actor))
    assert found == [
        (pin, "rollback pinned", "alice"),
        (pin, "policy set", "bob"),
        (None, "rollback unpinned", "alice"),
    ]


def test_vmodels_and_registered_models(story: Story) -> None:
    registry = story.registry
    registry.register_model("a", ModelInfo("tensorflow", "/a"), False, 0, ALICE)
    story.tick()
    registry.set_vmodel(SetVModel("v", "a"), Fleet(a=1), BOB)
    move = ServedRegistration("a", 1)
    at = story.move(Move("model:a", move), Move("vmodel:v", move))
    state = {"model": "a", "generation": 1, "path": "/a"}
    found = registry.state_at(at).subjects
    live = {item.subject: item.live for item in found if item.live is not None}
    assert {name: (fact.state, fact.actor) for name, fact in live.items()} == {
        "model:a": (state, "alice"),
        "vmodel:v": (state, "bob"),
    }
    registry.delete_vmodel("v", "", ALICE)
    registry.unregister_model("a", ALICE)
    after = {item.subject: item.wanted for item in registry.state_at(story.tick()).subjects}
    assert [after[name].state for name in ("model:a", "vmodel:v") if after[name]] == [None, None]  # type: ignore[union-attr]


def test_an_unclean_end_ends_what_was_live_with_the_last_heartbeat(story: Story) -> None:
    registry, clock = story.registry, story.clock
    process = registry.begin_process("host", RECONCILE)
    story.add()
    story.serve(1)
    served_at = clock.time
    last = story.tick()
    registry.heartbeat(process)
    clock.advance(3600 * SECOND)
    between = clock.time
    clock.advance(SECOND)
    registry.begin_process("host", RECONCILE)
    began = clock.time
    answer = registry.state_at(between, "model:m")
    assert answer.gap == (last, began)
    assert answer.subjects[0].live is not None
    assert (answer.subjects[0].live.state, answer.subjects[0].live.since) == (None, last)
    (interval,) = registry.live_intervals("model:m")
    assert (interval.start, interval.end) == (served_at, last)
    assert registry.state_at(served_at, "model:m").gap is None
    (lost,) = registry.events(action="server lost")
    assert lost.after == {"process": "host", "until": last}
    assert registry.live() == {}


def test_a_clean_end_ends_what_was_live_then(story: Story) -> None:
    registry = story.registry
    process = registry.begin_process("host", RECONCILE)
    story.add()
    story.serve(1)
    ended = story.tick()
    registry.end_process(process, RECONCILE)
    assert [interval.end for interval in registry.live_intervals("model:m")] == [ended]
    later = story.tick()
    assert registry.state_at(later).gap == (ended, None)
    assert registry.events(action="server lost") == ()


def test_what_is_live_outlives_one_of_several_bridges(
    story: Story, open_registry: Callable[..., Registry], dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("one bridge has SQLite for itself")
    registry = story.registry
    registry.begin_process("one", RECONCILE)
    other = registry.begin_process("two", RECONCILE)
    story.add()
    story.serve(1)
    for _ in range(4):
        story.clock.advance(5 * SECOND)
        registry.heartbeat(other)
    registry.begin_process("three", RECONCILE)
    assert [event.after["process"] for event in registry.events(action="server lost")] == ["one"]
    assert "model:m" in registry.live()


def test_live_intervals_of_a_version(story: Story) -> None:
    story.add()
    story.serve(1)
    first = story.clock.time
    story.serve(2, 1)
    second = story.clock.time
    third = story.move(Move("model:m", ServedVersion("m", 2, (2,))))
    assert [(item.state["version"], item.start, item.end) for item in story.registry.live_intervals("model:m")] == [
        (1, first, second),
        (2, second, None),
    ]
    (model,) = story.registry.state_at(third, "model:m").subjects
    assert model.live is not None
    assert (model.live.state, model.live.since) == (served(2), second)
    (one,) = story.registry.live_intervals("model:m", 1)
    assert (one.start, one.end) == (first, third)
    (two,) = story.registry.live_intervals("model:m", 2)
    assert (two.start, two.end) == (second, None)
    assert story.registry.live_intervals("model:m", 3) == ()


def test_more_that_is_known_of_a_served_version_is_told(story: Story) -> None:
    story.add()
    story.serve(1)
    story.tick()
    story.registry.record_version("m", 1, AVAILABLE, fingerprint="another", actor=RECONCILE)
    assert story.registry.live()["model:m"]["fingerprint"] == "another"


def test_differences_of_two_times(story: Story) -> None:
    story.add(stable=1)
    story.serve(1)
    start = story.clock.time
    story.tick()
    story.registry.set_policy("m", {"latest": 2}, BOB)
    story.registry.set_label("m", "stable", 2, BOB)
    story.serve(2, 1)
    found = story.registry.diff(start, story.clock.time)
    by_name = {(item.subject, item.aspect): item.changes for item in found.subjects}
    assert by_name["label:m/stable", Aspect.WANTED] == (Change("version", 1, 2),)
    assert by_name["model:m", Aspect.WANTED] == (Change("policy.latest", None, 2),)
    assert by_name["model:m", Aspect.LIVE] == (
        Change("fingerprint", "f1", "f2"),
        Change("path", "/models/m/1", "/models/m/2"),
        Change("version", 1, 2),
        Change("versions", [1], [2, 1]),
    )
    assert ("model:m", Aspect.OBSERVED) in by_name
    (label,) = story.registry.diff(start, story.clock.time, "label:m/stable").subjects
    assert [story.registry.events(after=seq - 1, limit=1)[0].action for seq in label.events] == ["label set"]
    assert story.registry.diff(start, start).subjects == ()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"subject": "label:m/stable"}, ["label set", "label set"]),
        ({"actor": "bob"}, ["label set", "policy set"]),
        ({"actor": "bob", "action": "label set"}, ["label set"]),
        ({"action": "policy set"}, ["policy set"]),
        ({"subject": "label:m/stable", "limit": 1}, ["label set"]),
        ({"actor": "nobody"}, []),
    ],
    ids=str,
)
def test_events_by_filter(story: Story, query: dict[str, Any], expected: list[str]) -> None:
    story.add(stable=1)
    story.registry.set_policy("m", {"latest": 2}, BOB)
    story.registry.set_label("m", "stable", 2, BOB)
    assert [event.action for event in story.registry.history(HistoryQuery(**query))] == expected


def test_events_between_two_times(story: Story) -> None:
    story.add()
    since = story.tick()
    story.registry.set_policy("m", {"latest": 2}, BOB)
    until = story.tick()
    story.registry.set_policy("m", {"latest": 3}, BOB)
    between = story.registry.history(HistoryQuery(since=since, until=until))
    assert [event.after["policy"] for event in between] == [{"latest": 2}]
    assert [event.at for event in story.registry.history(HistoryQuery(since=since, newest_first=False))] == [
        since,
        until,
    ]


def test_the_state_after_an_event(story: Story) -> None:
    story.add(stable=1)
    story.registry.set_label("m", "stable", 2, BOB)
    (event,) = story.registry.events(subject="label:m/stable", newest_first=True, limit=1)
    (before,) = story.registry.state_at_seq(event.seq - 1, "label:m/stable").subjects
    assert before.wanted is not None
    assert before.wanted.state == {"version": 1}
    with pytest.raises(BridgeError, match="There is no event #999"):
        story.registry.state_at_seq(999)


def test_times_that_nobody_can_answer_for(story: Story) -> None:
    story.add()
    with pytest.raises(InvalidArgument, match="is in the future"):
        story.registry.state_at(story.clock.time + 1)
    with pytest.raises(BridgeError, match=r"The history begins at .*; nothing is known of 1970") as caught:
        story.registry.state_at(0)
    assert caught.value.code is Code.OUT_OF_RANGE


def test_whom_a_name_means(story: Story) -> None:
    story.add("m", stable=1)
    story.add("n", stable=1)
    find = story.registry.find_subject
    assert [find(text) for text in ("m", "model:m", "m/stable", "server")] == [
        "model:m",
        "model:m",
        "label:m/stable",
        "server",
    ]
    with pytest.raises(InvalidArgument, match="'stable' may mean label:m/stable, label:n/stable; name one of them"):
        find("stable")
    with pytest.raises(NotFound, match="The history knows nothing called 'other'"):
        find("other")
    with pytest.raises(NotFound, match="The history knows no label 'm/other'"):
        find("label:m/other")
    assert story.registry.subjects("label:") == ("label:m/stable", "label:n/stable")
