"""One model's versions against the scenario table of TF Serving's lifecycle."""

from __future__ import annotations

from bridge.errors import BridgeError, Code
from bridge.lifecycle.transition import resource_preserving
from bridge.serving.routes import VersionState
from tests.lifecycle.surroundings import FakeSurroundings

BROKEN = BridgeError("no such file", Code.NOT_FOUND)


async def serving(*versions: int) -> FakeSurroundings:
    """A manager that serves these versions."""
    around = FakeSurroundings()
    around.aspire(*versions)
    for version in versions:
        await around.finish(version)
    assert around.serving() == sorted(versions)
    return around


async def test_life_cycle() -> None:
    around = await serving(1)
    around.aspire()
    await around.let_go(1)
    states = [state for _, state in around.history]
    assert states == [
        VersionState.START,
        VersionState.LOADING,
        VersionState.AVAILABLE,
        VersionState.UNLOADING,
        VersionState.END,
    ]
    assert around.manager.empty


async def test_a_new_version_takes_over_only_when_it_serves() -> None:
    around = await serving(1)
    around.aspire(2)
    await around.turn()
    assert around.serving() == [1]
    assert around.states() == {2: "LOADING", 1: "AVAILABLE"}
    await around.finish(2)
    assert around.serving() == [2]
    assert around.states() == {2: "AVAILABLE", 1: "UNLOADING"}
    await around.let_go(1)
    assert list(around.states().items()) == [(2, "AVAILABLE"), (1, "END")]


async def test_a_failed_version_leaves_the_old_one_serving_until_a_good_one_comes() -> None:
    around = await serving(1)
    around.aspire(2)
    await around.fail(2, BROKEN)
    assert around.serving() == [1]
    status = around.manager.statuses()[2]
    assert (status.state, status.code, status.message) == (VersionState.END, Code.NOT_FOUND, "no such file")
    around.aspire(2)
    await around.turn()
    assert 2 not in around.loads
    around.aspire(3)
    await around.finish(3)
    await around.let_go(1)
    assert around.serving() == [3]
    assert around.states() == {3: "AVAILABLE", 2: "END", 1: "END"}


async def test_a_failed_version_is_tried_again_once_it_left_and_came_back() -> None:
    around = await serving(1)
    around.aspire(2)
    await around.fail(2, BROKEN)
    around.aspire(1)
    around.aspire(2)
    await around.finish(2)
    assert around.serving() == [2]


async def test_the_older_version_is_loaded_first_when_the_newest_directory_goes() -> None:
    around = await serving(2)
    around.aspire(1)
    await around.turn()
    assert around.serving() == [2]
    await around.finish(1)
    assert around.serving() == [1]


async def test_several_versions_at_a_time() -> None:
    around = await serving(1, 2)
    around.aspire(2, 3)
    await around.finish(3)
    await around.let_go(1)
    assert around.serving() == [2, 3]


async def test_nothing_aspired_unloads_everything() -> None:
    around = await serving(1, 2)
    around.aspire()
    await around.let_go(1)
    await around.let_go(2)
    assert around.serving() == []
    assert around.states() == {2: "END", 1: "END"}


async def test_a_version_that_returns_while_it_unloads_is_loaded_again_after_its_end() -> None:
    around = await serving(1)
    around.aspire()
    await around.turn()
    around.aspire(1)
    await around.let_go(1)
    await around.finish(1)
    assert around.serving() == [1]


async def test_a_version_that_returns_before_its_unload_began_just_stays() -> None:
    around = await serving(1)
    around.aspire(2)
    await around.turn()
    around.aspire(1)
    assert around.serving() == [1]
    assert not around.wishes[2].stands


async def test_a_load_that_ends_well_after_its_version_left_is_cancelled() -> None:
    around = await serving(1)
    around.aspire(2)
    await around.turn()
    around.aspire(1)
    await around.finish(2)
    await around.let_go(2)
    status = around.manager.statuses()[2]
    assert (status.state, status.code) == (VersionState.END, Code.CANCELLED)
    assert status.message == "Loading of servable cancelled"
    assert around.serving() == [1]


async def test_labels_wait_for_their_version_and_then_stay() -> None:
    around = await serving(1)
    around.manager.set_labels({"stable": 1, "canary": 2})
    assert around.manager.route().labels == {"stable": 1}
    around.aspire(1, 2)
    await around.finish(2)
    assert around.manager.route().labels == {"stable": 1, "canary": 2}
    around.aspire(2)
    await around.let_go(1)
    assert around.manager.route().labels == {"stable": 1, "canary": 2}
    around.manager.set_labels({"canary": 2})
    assert around.manager.route().labels == {"canary": 2}


async def test_settled_means_serving_or_nothing_but_errors() -> None:
    around = FakeSurroundings()
    assert not around.manager.settled
    around.aspire(1, 2)
    assert not around.manager.settled
    await around.fail(2, BROKEN)
    assert not around.manager.settled
    await around.fail(1, BROKEN)
    assert around.manager.settled


async def test_resources_first_unloads_before_it_loads() -> None:
    around = FakeSurroundings(resource_preserving)
    around.aspire(1)
    await around.finish(1)
    around.aspire(2)
    await around.turn()
    assert (around.serving(), list(around.loads)) == ([], [])
    await around.let_go(1)
    await around.finish(2)
    assert around.serving() == [2]


async def test_a_directory_that_vanished_before_its_load_never_loads() -> None:
    around = FakeSurroundings()
    around.vanished.add(1)
    around.aspire(1)
    await around.turn()
    assert around.history == [(1, VersionState.START), (1, VersionState.END)]
    assert around.manager.route().statuses[0].code is Code.NOT_FOUND
