"""Reloads that block, overlap, are broken off, or meet a database that is away."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code, Unavailable
from bridge.registry.records import Actor
from tests.lifecycle.place import Place, parse, running
from tests.serving import waiting

ACTOR = Actor("client", "RPC")


async def until(condition: object) -> None:
    await waiting.until(condition, seconds=20.0)  # type: ignore[arg-type]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Model `a` serves version 1 by a reload; `empty` has a base path without versions."""
    async with running(tmp_path, reload_timeout_seconds=20) as place:
        place.export("a", 1)
        place.export("empty")
        await place.configurator.reload(parse(place.entry("a")), ACTOR, None)
        assert place.states("a") == {1: "AVAILABLE"}
        yield place


def reload(place: Place, *models: str, timeout: float | None = None) -> asyncio.Task[None]:
    config = parse(*(place.entry(model) for model in models))
    return asyncio.create_task(place.configurator.reload(config, ACTOR, timeout))


async def test_a_reload_waits_for_the_one_before(place: Place) -> None:
    place.export("b", 1)
    first = reload(place, "a", "empty")
    await until(lambda: place.plane.platform("empty"))
    second = reload(place, "a", "b")
    done, _ = await asyncio.wait((second,), timeout=0.3)
    assert not done
    place.export("empty", 1)
    await first
    assert place.configured == ["a", "empty"]
    await second
    assert place.configured == ["a", "b"]
    await until(lambda: place.states("empty") == {1: "END"})


async def test_a_clients_deadline_counts_from_its_call(place: Place) -> None:
    first = reload(place, "a", "empty", timeout=1.0)
    await until(lambda: place.plane.platform("empty"))
    started = time.monotonic()
    second = reload(place, "empty", timeout=1.5)
    for task in (first, second):
        with pytest.raises(BridgeError) as caught:
            await task
        assert caught.value.code is Code.UNKNOWN
        assert "{{name: empty version: 0} due to error: DEADLINE_EXCEEDED: not loaded within" in caught.value.message
    assert time.monotonic() - started < 2.0
    assert place.configured == ["a"]


@pytest.mark.parametrize("when", ["waiting for another", "waiting for its models"])
async def test_a_client_that_goes_away_changes_nothing(place: Place, when: str) -> None:
    tasks = [reload(place, "empty")]
    await until(lambda: place.plane.platform("empty"))
    if when == "waiting for another":
        tasks.append(reload(place, "a"))
        await asyncio.sleep(0)
    for task in reversed(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (place.configured, place.plane.platform("empty")) == (["a"], None)
    place.export("empty", 1)
    await reload(place, "empty")
    assert place.states("empty") == {1: "AVAILABLE"}


async def test_a_client_that_goes_away_while_the_change_is_written_does_not_halve_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = asyncio.Event(), asyncio.Event()
    call = place.thread.call

    async def slow(function: object, *args: object, **kwargs: object) -> object:
        answer = await call(function, *args, **kwargs)  # type: ignore[arg-type]
        if function == place.registry.apply_config:
            writing.set()
            await go_on.wait()
        return answer

    monkeypatch.setattr(place.thread, "call", slow)
    place.export("b", 1)
    task = reload(place, "b")
    await writing.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert place.configured == ["b"]
    assert [model.name for model in place.registry.models()] == ["b"]


async def test_a_model_that_was_unloaded_is_loaded_again(place: Place) -> None:
    place.export("b", 1)
    for _ in range(2):
        await reload(place, "b")
        assert place.states("b") == {1: "AVAILABLE"}
        await until(lambda: place.states("a") == {1: "END"})
        await reload(place, "a")
        assert place.states("a") == {1: "AVAILABLE"}
        await until(lambda: place.states("b") == {1: "END"})


async def test_an_operators_change_during_a_reload_takes_effect_at_once(place: Place) -> None:
    place.export("a", 2)
    await until(lambda: place.states("a") == {2: "AVAILABLE", 1: "END"})
    waiting_for_empty = reload(place, "a", "empty", timeout=3.0)
    await until(lambda: place.plane.platform("empty"))
    assert await place.operations.set_policy("a", {"all": {}}, ACTOR)
    await until(lambda: place.states("a") == {2: "AVAILABLE", 1: "AVAILABLE"})
    assert not waiting_for_empty.done()
    assert place.plane.platform("empty"), "the change left the trial alone"
    with pytest.raises(BridgeError):
        await waiting_for_empty
    assert place.registry.model("a").policy == {"all": {}}, "the failed reload left the change alone"


@pytest.mark.parametrize("function", ["introduce_models", "apply_config"])
async def test_the_database_is_away_before_the_change_is_written(place: Place, function: str) -> None:
    place.export("b", 1)
    place.thread.away[function] = 1
    with pytest.raises(Unavailable, match="the database is away"):
        await reload(place, "b")
    assert place.configured == ["a"]
    assert place.states("a") == {1: "AVAILABLE"}
    await until(lambda: place.states("b") in ({}, {1: "END"}))
    await reload(place, "b")
    assert place.states("b") == {1: "AVAILABLE"}


async def test_the_database_is_away_after_the_change_was_written(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.export("b", 1)
    place.thread.away["current_config"] = 2
    await reload(place, "b")
    assert place.configured == ["b"]
    assert caplog.text.count("the new configuration waits for the database") == 2


async def test_observations_wait_for_the_database_in_order(place: Place) -> None:
    place.thread.away["record_version"] = 3
    place.export("a", 2)
    await until(lambda: place.states("a") == {2: "AVAILABLE", 1: "END"})
    assert await place.recorder.flush(20)
    events = place.registry.events("model:a", "version observed", limit=100)
    moves = [event for event in events if (event.before or {}).get("state") != event.after["state"]]
    seen = [(event.after["version"], event.after["state"]) for event in moves]
    assert seen == [
        (1, "START"), (1, "LOADING"), (1, "AVAILABLE"), (2, "START"), (2, "LOADING"), (2, "AVAILABLE"),
        (1, "UNLOADING"), (1, "END"),
    ]  # fmt: skip
    assert place.registry.verify_chain() is None


async def test_the_highest_decided_version_speaks_for_a_model(place: Place) -> None:
    """An available version below one that ended does not make a reload succeed, as in TF Serving."""
    base_path = place.export("two", 1)
    shutil.copytree(base_path / "1", base_path / "2")
    name = place.triton_name("two", 1)
    place.triton.refused.add(place.triton_name("two", 2))
    place.triton.held.add(name)
    config = parse(place.entry("two", "all {}"))
    reloading = asyncio.create_task(place.configurator.reload(config, ACTOR, None))
    await until(lambda: place.states("two").get(2) == "END" and place.triton.count("load", name) == 1)
    with pytest.raises(BridgeError) as caught:
        await reloading
    assert caught.value.message == (
        "1 model(s) did not become available: {{{name: two version: 2} due to error: INVALID_ARGUMENT: refused}, }"
    )
    place.triton.finish(name)
