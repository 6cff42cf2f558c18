"""Versions that are loaded to see whether they would serve, before any request is to reach them."""

from __future__ import annotations

from bridge.errors import BridgeError, Code
from bridge.serving.routes import VersionState
from model_repo_sync.sources import VersionDirectory
from tests.lifecycle.surroundings import FakeSurroundings

BROKEN = BridgeError("no such file", Code.NOT_FOUND)


async def serving(*versions: int) -> FakeSurroundings:
    around = FakeSurroundings()
    around.aspire(*versions)
    for version in versions:
        await around.finish(version)
    return around


def rehearse(around: FakeSurroundings, *versions: int) -> None:
    around.manager.rehearse([VersionDirectory(version, f"/kept/{version}") for version in versions])


async def test_a_rehearsed_version_is_reached_once_it_is_asked_for() -> None:
    around = await serving(2)
    rehearse(around, 3)
    assert around.manager.rehearsal() is None
    await around.finish(3)
    rehearsed = around.manager.rehearsal()
    assert rehearsed is not None
    assert (rehearsed.version, rehearsed.state) == (3, VersionState.AVAILABLE)
    assert around.serving() == [2]
    assert around.manager.ready_versions() == {2}
    around.aspire(3)
    rehearse(around)
    assert around.serving() == [3]
    await around.let_go(2)
    assert around.states() == {3: "AVAILABLE", 2: "END"}


async def test_what_failed_in_a_rehearsal_leaves_no_trace() -> None:
    around = await serving(2)
    rehearse(around, 1)
    await around.fail(1, BROKEN)
    rehearsed = around.manager.rehearsal()
    assert rehearsed is not None
    assert (rehearsed.state, rehearsed.code, rehearsed.message) == (VersionState.END, Code.NOT_FOUND, "no such file")
    rehearse(around)
    assert around.serving() == [2]
    assert around.manager.triton_names() == {"tfs.00000000.m.2"}


async def test_a_rehearsal_that_ends_unasked_is_unloaded_while_others_serve() -> None:
    around = await serving(2)
    rehearse(around, 3)
    await around.finish(3)
    rehearse(around)
    await around.let_go(3)
    assert around.serving() == [2]
    assert around.states() == {3: "END", 2: "AVAILABLE"}


async def test_a_hidden_version_takes_nobodys_place() -> None:
    around = await serving(2)
    around.aspire(3)
    rehearse(around, 1)
    await around.finish(1)
    assert around.serving() == [2]
    assert not around.unloads
    await around.finish(3)
    assert around.serving() == [3]
    await around.let_go(2)


async def test_a_version_that_serves_still_is_not_hidden_by_a_rehearsal() -> None:
    around = await serving(2)
    around.aspire(3)
    rehearse(around, 2)
    assert around.serving() == [2]
    rehearsed = around.manager.rehearsal()
    assert rehearsed is not None
    assert rehearsed.state is VersionState.AVAILABLE


async def test_labels_do_not_reach_a_hidden_version() -> None:
    around = await serving(2)
    around.manager.set_labels({"stable": 3})
    rehearse(around, 3)
    await around.finish(3)
    assert around.manager.route().labels == {}
    around.aspire(2, 3)
    assert around.manager.route().labels == {"stable": 3}
