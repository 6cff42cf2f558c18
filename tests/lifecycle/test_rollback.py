"""Rollbacks of models and labels on a real registry and a double of Triton."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge import moments
from bridge.errors import BridgeError, Code
from bridge.lifecycle.rollback_plan import RollbackPlan
from bridge.registry.records import Actor
from model_repo_sync.policy import parse as parse_policy
from tests.lifecycle.place import Place, parse, running
from tests.serving import waiting

ACTOR = Actor("alice", "admin", "because")


async def until(condition: object) -> None:
    await waiting.until(condition, seconds=20.0)  # type: ignore[arg-type]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Model `a` serves version 1 by a reload."""
    async with running(tmp_path, reload_timeout_seconds=20) as place:
        place.export("a", 1)
        await reload(place)
        await known(place, 1)
        yield place


async def reload(place: Place, *others: str, without_a: bool = False, **entry: Any) -> None:
    entries = [] if without_a else [place.entry("a", **entry)]
    entries += [place.entry(other) for other in others]
    await place.configurator.reload(parse(*entries), ACTOR, None)


async def serve(place: Place, version: int) -> None:
    """Drop a version, and wait until it took over."""
    place.export("a", version)
    await until(lambda: live(place) == [version])
    await known(place, version)


async def known(place: Place, version: int) -> None:
    """Wait until every byte of a version was read."""
    await until(lambda: place.registry.provenance("a", version))
    assert await place.recorder.flush(20)


def live(place: Place) -> list[int]:
    route = place.plane.publisher.routes.models.get("a")
    return sorted(route.servables) if route is not None else []


def problems(place: Place) -> list[str]:
    return list(place.plane.problems().get("a", {}).values())


def pinned(place: Place) -> tuple[int, ...] | None:
    pin = place.registry.model("a").pin
    return pin.versions if pin is not None else None


async def back(place: Place, subject: str = "model:a", to: str = "") -> RollbackPlan:
    return await place.operations.roll_back(subject, to, ACTOR)


async def refused(place: Place, subject: str = "model:a", to: str = "") -> str:
    """Why a rollback is refused, which changes nothing."""
    before = live(place), place.registry.models()
    with pytest.raises(BridgeError) as caught:
        await back(place, subject, to)
    assert caught.value.code in (Code.FAILED_PRECONDITION, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.OUT_OF_RANGE)
    assert (live(place), place.registry.models()) == before
    return caught.value.message


def changes(plan: RollbackPlan) -> dict[str, tuple[Any, Any]]:
    return {change.path: (change.before, change.after) for change in plan.changes if change.path != "pin"}


async def test_polls_and_newer_versions_leave_a_rollback_alone(place: Place) -> None:
    await serve(place, 2)
    plan = await back(place)
    assert changes(plan) == {"versions": ([2], [1])}
    assert (live(place), pinned(place)) == ([1], (1,))
    place.export("a", 3)
    base_path, aside = place.models / "a", place.models / "aside"
    base_path.rename(aside)
    await until(lambda: problems(place))
    aside.rename(base_path)
    await until(lambda: not problems(place))
    place.export("b", 1)
    await reload(place, "b")
    assert live(place) == [1]
    assert await place.operations.unpin("a", ACTOR)
    await until(lambda: live(place) == [3])


async def test_a_preview_changes_nothing(place: Place) -> None:
    await serve(place, 2)
    plan = await place.operations.rollback_plan("a")
    assert (plan.subject, plan.refusal, changes(plan)) == ("model:a", "", {"versions": ([2], [1])})
    [content] = plan.contents
    assert (content.version, content.path) == (1, str(place.models / "a" / "1"))
    assert content.place == place.kept.path("a", 1, content.fingerprint)
    assert (live(place), pinned(place)) == ([2], None)


async def test_the_state_of_a_time_comes_back(place: Place) -> None:
    at = place.registry.events("model:a", "live moved", limit=10)[0].at
    await serve(place, 2)
    await serve(place, 3)
    assert changes(await back(place, "a", moments.describe(at))) == {"versions": ([3], [1])}
    assert live(place) == [1]


async def test_rollbacks_can_be_rolled_back(place: Place) -> None:
    await serve(place, 2)
    await back(place)
    assert changes(await back(place)) == {"versions": ([1], [2])}
    assert (live(place), pinned(place)) == ([2], (2,))
    assert changes(await back(place)) == {"versions": ([2], [1])}


async def test_a_policy_and_labels_go_back_with_the_versions(place: Place) -> None:
    await reload(place, policy="specific { versions: 1 }", labels={"stable": 1})
    place.export("a", 2)
    await place.operations.set_policy("a", parse_policy("latest:2").to_json(), ACTOR)
    await until(lambda: live(place) == [1, 2])
    await known(place, 2)
    await place.operations.set_label("a", "stable", 2, ACTOR)
    await place.operations.set_label("a", "new", 2, ACTOR)
    plan = await back(place)
    assert changes(plan) == {
        "versions": ([1, 2], [1]),
        "policy": ({"latest": {"num_versions": 2}}, {"specific": {"versions": [1]}}),
        "labels.stable": (2, 1),
        "labels.new": (2, None),
    }
    assert (live(place), place.plane.label("a", "stable")) == ([1], 1)


async def test_a_dropped_model_comes_back_without_its_source(place: Place) -> None:
    await reload(place, labels={"stable": 1})
    place.export("b", 1)
    await reload(place, "b", without_a=True)
    await until(lambda: live(place) == [])
    assert await place.recorder.flush(20)
    shutil.rmtree(place.models / "a")
    plan = await back(place)
    assert set(changes(plan)) == {"versions", "model"}
    assert (live(place), pinned(place), place.plane.label("a", "stable")) == ([1], (1,), 1)
    with pytest.raises(BridgeError):
        await place.configurator.reload(parse(place.entry("b"), place.entry("missing")), ACTOR, 0.2)
    assert live(place) == [1]
    place.export("c", 1)
    await reload(place, "b", "c", without_a=True)
    await until(lambda: live(place) == [])


async def test_what_does_not_load_leaves_everything_as_it_was(place: Place) -> None:
    await serve(place, 2)
    name = place.triton_name("a", 1)
    await until(lambda: name not in place.triton.states or place.triton.states[name] == "UNAVAILABLE")
    place.triton.refused.add(name)
    assert await refused(place) == "Model 'a' stays as it is: version 1 does not load: refused"
    assert pinned(place) is None
    place.triton.refused.clear()
    await back(place)
    assert live(place) == [1]


async def test_requests_move_only_once_the_version_is_ready(place: Place) -> None:
    await serve(place, 2)
    name = place.triton_name("a", 1)
    await until(lambda: place.plane.statuses("a")[1].state.name == "END")
    place.triton.held.add(name)
    going = asyncio.create_task(back(place))
    await until(lambda: place.triton.states.get(name) == "LOADING")
    assert live(place) == [2]
    place.triton.finish(name)
    await going
    assert live(place) == [1]


async def test_contents_that_changed_or_are_gone(place: Place) -> None:
    await serve(place, 2)
    await until(lambda: place.plane.fleet.stored(place.triton_name("a", 1)) is None)
    shutil.rmtree(Path(place.kept.path("a", 1, place.registry.provenance("a", 1)[0].fingerprint)).parent)
    source = place.models / "a" / "1"
    assert (await place.operations.rollback_plan("a")).contents[0].place == str(source)
    (source / "more").write_bytes(b"more")
    assert f"cannot be put back: the files at {source} were changed" in await refused(place)
    shutil.rmtree(source)
    assert (
        await refused(place) == f"Version 1 of model 'a' cannot be put back: its files at {source} are gone, "
        "and the content of then is not kept."
    )


async def test_a_kept_content_that_somebody_changed_is_not_used(place: Place) -> None:
    await serve(place, 2)
    await until(lambda: place.plane.fleet.stored(place.triton_name("a", 1)) is None)
    kept = Path(place.kept.path("a", 1, place.registry.provenance("a", 1)[0].fingerprint))
    (kept / "more").write_bytes(b"more")
    shutil.rmtree(place.models / "a" / "1")
    assert "are gone, and the content of then is not kept" in await refused(place)


async def test_one_number_cannot_serve_two_contents(place: Place) -> None:
    first = place.registry.events("model:a", "live moved", limit=100)[-1].seq
    await serve(place, 2)
    shutil.rmtree(place.models / "a" / "1")
    shutil.rmtree(place.models / "a" / "2")
    await until(lambda: problems(place))
    place.export("b", 1)
    await reload(place, "b", without_a=True)
    await until(lambda: live(place) == [] and place.states("a")[2] == "END")
    (place.export("a", 1) / "1" / "other").write_bytes(b"other")
    await reload(place, "b")
    await until(lambda: live(place) == [1] and len(place.registry.provenance("a", 1)) == 2)
    assert "it serves other content now, and one number cannot serve both" in await refused(place, to=f"#{first}")


async def test_other_content_at_the_source_of_what_serves_is_told(place: Place) -> None:
    source = place.models / "a" / "1"
    graph = source / "saved_model.pb"
    before = graph.read_bytes()
    (source / "staged").write_bytes(before + b"\x18\x01")
    os.replace(source / "staged", graph)
    await until(lambda: any("holds other content" in sentence for sentence in problems(place)))
    assert await place.recorder.flush(20)
    (source / "staged").write_bytes(before)
    os.replace(source / "staged", graph)
    await until(lambda: not problems(place))
    assert await place.recorder.flush(20)
    told = place.registry.events("model:a", "content changed", limit=10)
    assert [event.after["fingerprint"] == event.before["fingerprint"] for event in told] == [False, False]
    assert told[0].before["fingerprint"] == told[1].after["fingerprint"]
    assert live(place) == [1]


async def test_the_last_contents_are_kept_besides_what_serves(place: Place) -> None:
    for version in range(2, 6):
        await serve(place, version)
    await until(lambda: sorted(item.version for item in place.kept.contents("a")) == [3, 4, 5])


async def test_a_label_goes_back_alone(place: Place) -> None:
    await reload(place, policy="all {}")
    place.export("a", 2)
    await until(lambda: live(place) == [1, 2])
    await known(place, 2)
    await place.operations.set_label("a", "stable", 1, ACTOR)
    await place.operations.set_label("a", "stable", 2, ACTOR)
    assert changes(await back(place, "a/stable")) == {"version": (2, 1)}
    assert (place.plane.label("a", "stable"), live(place)) == (1, [1, 2])
    assert changes(await back(place, "stable")) == {"version": (1, 2)}
    first = place.registry.events("label:a/stable", "label set", limit=10)[0].seq
    assert changes(await back(place, "stable", f"#{first}")) == {"version": (2, 1)}
    assert changes(await back(place, "stable", f"#{first - 1}")) == {"version": (1, None)}
    assert place.registry.model("a").labels == {}


@pytest.mark.parametrize(
    ("subject", "to", "sentence"),
    [
        ("model:a", "", "The history knows no earlier state of model:a to go back to."),
        ("server", "#1", "server cannot be rolled back; only models, labels and vmodels can."),
        ("model:a", "#1", "Model 'a' served nothing at event #1, so there is nothing to go back to."),
        ("nobody", "", "The history knows nothing called 'nobody'."),
        ("a", "#0", "There is no event #0."),
        ("a", "#-1", "'#-1' names no event; write #57, or a time."),
    ],
)
async def test_what_cannot_be_rolled_back(place: Place, subject: str, to: str, sentence: str) -> None:
    assert await refused(place, subject, to) == sentence
