"""One instance and several, against a double of Triton whose loads and unloads end when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import Code, DeadlineExceeded
from bridge.lifecycle import fleet as fleet_module
from bridge.lifecycle import stuck_loads
from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.instance import InstanceController
from bridge.lifecycle.retries import Retries
from bridge.lifecycle.servable import Servable
from bridge.serving.routes import InstanceRoute
from bridge.triton.instance import FailureKind, LoadFailure
from tests.lifecycle.scripted_triton import News, Process, ScriptedTriton, controller, servable, unavailable
from tests.serving import waiting


async def until(condition: Callable[[], bool]) -> None:
    """Files reach the disk before a model is loaded, which may take its time."""
    await waiting.until(condition, seconds=30.0)


async def holds(one: InstanceController, *names: str) -> None:
    """Wait until the copies are there and nobody works on them any more."""
    await until(lambda: set(names) <= set(one.loaded) and not any(one._busy(name) for name in names))


class Wanted:
    """What has to be held; everything else of this deployment may go."""

    def __init__(self) -> None:
        self.wanted: dict[str, Servable] = {}

    def want(self, servable: Servable) -> str:
        self.wanted[servable.triton_name] = servable
        return servable.triton_name

    def servables(self) -> Mapping[str, Servable]:
        return self.wanted

    def is_known(self, triton_name: str, instance: str) -> bool:
        return triton_name in self.wanted

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        return ()


Make = Callable[..., tuple[InstanceController, ScriptedTriton]]


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def wanted() -> Wanted:
    return Wanted()


@pytest.fixture
def news() -> News:
    return News()


@pytest.fixture
async def make(tmp_path: Path, wanted: Wanted, news: News, executor: Executor) -> AsyncIterator[Make]:
    made: list[InstanceController] = []

    def make(name: str = "one", repository: str = "repository", wanted: Any = wanted, **limits: Any) -> Any:
        found, triton = controller(name, tmp_path / repository, wanted, news, executor, **limits)
        made.append(found)
        return found, triton

    yield make
    for found in made:
        await found.close()
        assert not found._tasks


def directories(tmp_path: Path, repository: str = "repository") -> list[str]:
    return sorted(path.name for path in (tmp_path / repository).iterdir() if not path.name.startswith("."))


async def test_what_is_wanted_is_loaded_and_what_is_not_goes(make: Make, tmp_path: Path, wanted: Wanted) -> None:
    one, triton = make()
    name = wanted.want(servable(tmp_path, "m"))
    await one.look()
    await holds(one, name)
    assert directories(tmp_path) == [name]
    wanted.wanted.clear()
    await one.look()
    await until(lambda: triton.states[name] == "UNAVAILABLE" and directories(tmp_path) == [])
    assert name not in one.loaded


async def test_a_server_that_is_replaced_is_closed(make: Make, tmp_path: Path, wanted: Wanted, news: News) -> None:
    one, first = make()
    name = wanted.want(servable(tmp_path, "m"))
    await one.look()
    await holds(one, name)
    second = ScriptedTriton()
    one.attach(second, InstanceRoute("one", grpc="127.0.0.1:2", http=""))  # type: ignore[arg-type]
    assert (one.up, list(one.loaded)) == (False, [])
    await until(lambda: first.closed)
    await one.look()
    await holds(one, name)
    assert second.count("load", name) == 1
    one.detach("it ended")
    await until(lambda: second.closed)
    assert news.instances[-1] == ("one", False, "it ended")


async def test_a_load_that_ends_on_a_replaced_server_is_no_copy(make: Make, tmp_path: Path) -> None:
    one, first = make()
    version = servable(tmp_path, "m")
    await one.look()
    first.held.add(version.triton_name)
    loading = asyncio.create_task(one.load(version))
    await until(lambda: first.count("load", version.triton_name) == 1)
    one.attach(ScriptedTriton(), InstanceRoute("one", grpc="127.0.0.1:2", http=""))  # type: ignore[arg-type]
    first.finish(version.triton_name)
    await loading
    assert version.triton_name not in one.loaded


async def test_a_copy_that_never_unloads_is_waited_for_once(
    make: Make, tmp_path: Path, wanted: Wanted, caplog: pytest.LogCaptureFixture
) -> None:
    one, triton = make()
    name = wanted.want(servable(tmp_path, "m"))
    await one.look()
    await holds(one, name)
    triton.stuck.add(name)
    wanted.wanted.clear()
    await asyncio.wait_for(one.unload(name), 5)
    assert directories(tmp_path) == []
    for _ in range(5):
        await one.look()
    assert triton.count("unload", name) == 1
    assert caplog.text.count("did not let go of") == 1
    triton.stuck.clear()
    triton.states[name] = "READY"
    await one.look()
    await until(lambda: triton.states[name] == "UNAVAILABLE")


async def test_a_stuck_load_frees_its_slot_and_is_not_waited_for_twice(make: Make, tmp_path: Path) -> None:
    one, triton = make()
    await one.look()
    stuck, other = servable(tmp_path, "stuck"), servable(tmp_path, "other")
    name = stuck.triton_name
    triton.held.add(name)
    first = asyncio.create_task(one.load(stuck))
    await until(lambda: triton.count("load", name) == 1)
    second = asyncio.create_task(one.load(other))
    triton.expire(name)
    with pytest.raises(LoadFailure) as caught:
        await first
    assert (caught.value.kind, caught.value.code) == (FailureKind.PLATFORM, Code.DEADLINE_EXCEEDED)
    await second
    await one.look()
    with pytest.raises(LoadFailure, match="has not ended an earlier load") as caught:
        await one.load(stuck)
    assert caught.value.kind is FailureKind.PLATFORM
    assert triton.count("load", name) == 1
    triton.held.clear()
    triton.states[name] = "READY"
    await one.look()
    await one.load(stuck)
    assert name in one.loaded


async def test_a_repository_that_hangs_frees_the_slot(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = make(load_timeout=0.05)
    await one.look()

    async def hang(*args: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(one._copies, "_in_thread", hang)
    with pytest.raises(LoadFailure, match=r"the repository did not take .*/m/1 within 0\.05 s"):
        await one.load(servable(tmp_path, "m"))
    assert not one._copies._slots.locked()


async def test_a_load_waiting_for_its_name_takes_no_slot(make: Make, tmp_path: Path, wanted: Wanted) -> None:
    one, triton = make(unload_timeout=60.0)
    await one.look()
    first, other = servable(tmp_path, "m"), servable(tmp_path, "other")
    await one.load(first)
    triton.stuck.add(first.triton_name)
    unloading = asyncio.create_task(one.unload(first.triton_name))
    await until(lambda: triton.count("unload", first.triton_name) == 1)
    waiting = asyncio.create_task(one.load(first))
    await asyncio.wait_for(one.load(other), 5)
    assert not waiting.done()
    for task in (unloading, waiting):
        task.cancel()
    await asyncio.gather(unloading, waiting, return_exceptions=True)


async def test_an_unload_ends_the_reload_of_its_name(make: Make, tmp_path: Path, wanted: Wanted) -> None:
    one, triton = make()
    version = servable(tmp_path, "m")
    name = wanted.want(version)
    triton.held.add(name)
    await one.look()
    await until(lambda: triton.count("load", name) == 1)
    wanted.wanted.clear()
    await asyncio.wait_for(one.unload(name), 2)
    assert directories(tmp_path) == []
    assert not one._reloads


@pytest.mark.parametrize(("runner", "own", "restarts"), [(False, True, 1), (True, True, 0), (False, False, 0)], ids=str)
async def test_a_load_whose_runner_died_restarts_the_server(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: bool, own: bool, restarts: int
) -> None:
    monkeypatch.setattr(stuck_loads, "DEAD_SECONDS", 0.0)
    one, triton = make()
    version = servable(tmp_path, "m")
    process = Process(*([version.triton_name] if runner else []))
    one.attach(triton, InstanceRoute("one", grpc="127.0.0.1:1", http=""), process if own else None)  # type: ignore[arg-type]
    await one.look()
    triton.held.add(version.triton_name)
    loading = asyncio.create_task(one.load(version))
    await until(lambda: triton.states.get(version.triton_name) == "LOADING")
    for look in range(stuck_loads.LOOKS):
        assert not process.restarts, look
        await one.look()
    assert len(process.restarts) == restarts
    triton.finish(version.triton_name)
    await loading


async def test_models_of_others_are_left_alone(make: Make, tmp_path: Path, wanted: Wanted) -> None:
    one, triton = make()
    ours = servable(tmp_path, "m").triton_name
    foreign = ["resnet", "tfs.ffffffff.m.1", "tfs.0123abcd", "tfs.0123abcd.m.1.2", "bridge.probe.0123abcd.x", "..", ""]
    triton.states = dict.fromkeys((*foreign, ours), "READY")
    await one.look()
    await until(lambda: triton.states[ours] == "UNAVAILABLE")
    assert [name for call, name in triton.calls if call == "unload"] == [ours]


async def test_a_dead_runner_is_replaced(make: Make, tmp_path: Path, wanted: Wanted, news: News) -> None:
    one, triton = make()
    name = wanted.want(servable(tmp_path, "m"))
    await one.look()
    await holds(one, name)
    for reason in ("it took long", "Stub process 'm_0_0' is not healthy."):
        before = triton.count("load", name)
        triton.dead.add(name)
        one.suspect(name, reason)
        await one.look()
        await until(lambda before=before: triton.count("abandon", name) == before)
        await until(lambda: not one._busy(name))
        await one.look()
        await holds(one, name)
        assert triton.count("load", name) == before + 1
    assert [reason for _, lost, reason in news.lost if lost == name] == [
        "Stub process is not healthy.",
        "Stub process 'm_0_0' is not healthy.",
    ]


async def test_every_copy_is_asked_in_turn(make: Make, tmp_path: Path, wanted: Wanted) -> None:
    one, triton = make(load_concurrency=4)
    names = {wanted.want(servable(tmp_path, f"m{number}")) for number in range(10)}
    await one.look()
    await holds(one, *names)
    triton.calls.clear()
    await one.look()
    await one.look()
    assert sorted(name for call, name in triton.calls if call == "ping") == sorted(names)


@pytest.mark.parametrize(("error", "looks"), [(unavailable(), 1), (DeadlineExceeded("too late"), 3)])
async def test_a_server_that_does_not_answer_is_down_and_comes_back(
    make: Make, tmp_path: Path, wanted: Wanted, news: News, error: Any, looks: int
) -> None:
    one, triton = make()
    name = wanted.want(servable(tmp_path, "m"))
    await one.look()
    await holds(one, name)
    triton.down = error
    for _ in range(looks):
        assert one.up
        await one.look()
    assert (one.up, list(one.loaded)) == (False, [])
    with pytest.raises(LoadFailure, match="Triton one is down: ") as caught:
        await one.load(servable(tmp_path, "other"))
    assert caught.value.kind is FailureKind.PLATFORM
    await one.look()
    assert [up for _, up, _ in news.instances] == [True, False]
    triton.down = None
    await one.look()
    await holds(one, name)


async def test_an_instance_that_is_not_fit_says_so_once(
    make: Make, news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = make()

    async def unfit(instance: object) -> None:
        raise PermissionError(13, "Permission denied", "/repository")

    monkeypatch.setattr(one, "_check", unfit)
    for _ in range(3):
        await one.look()
    assert news.instances == [("one", False, "[Errno 13] Permission denied: '/repository'")]


async def test_a_failed_reload_waits_and_a_restart_ends_the_wait(make: Make, tmp_path: Path, wanted: Wanted) -> None:
    one, triton = make()
    name = wanted.want(servable(tmp_path, "m"))
    triton.held.add(name)
    await one.look()
    await until(lambda: triton.count("load", name) == 1)
    triton.expire(name)
    await until(lambda: not one._reloads)
    await one.look()
    assert (triton.count("load", name), dict(one._reloads)) == (1, {})
    one.attach(ScriptedTriton(), InstanceRoute("one", grpc="127.0.0.1:2", http=""))  # type: ignore[arg-type]
    await one.look()
    await holds(one, name)


def test_pauses_grow_by_name() -> None:
    now = 0.0
    retries = Retries(lambda: now)
    pauses = []
    for _ in range(4):
        retries.failed("a")
        started = now
        while not retries.due("a"):
            now += 0.25
        pauses.append(now - started)
    assert pauses == [0.25, 0.5, 1.0, 2.0]
    assert retries.due("b")
    retries.failed("a")
    retries.succeeded("a")
    retries.failed("a")
    now += 0.25
    assert retries.due("a")


# Several instances


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    fleet.keep_if(lambda name: False)
    return fleet


class FleetNews(News):
    """News that the fleet hears as well, as the control plane hands them on."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def instance_changed(self, instance: str, up: bool, reason: str) -> None:
        super().instance_changed(instance, up, reason)
        self._fleet.instance_changed()


@pytest.fixture
def news_of_fleet(fleet: Fleet) -> FleetNews:
    return FleetNews(fleet)


async def test_one_of_several_is_down_at_the_start(
    tmp_path: Path, fleet: Fleet, news_of_fleet: FleetNews, executor: Executor
) -> None:
    tritons = {}
    for name in ("a", "b", "c"):
        found, tritons[name] = controller(name, tmp_path / name, fleet, news_of_fleet, executor)
        fleet.add(found)
    tritons["b"].down = unavailable()

    async def look() -> None:
        for found in fleet.controllers.values():
            await found.look()

    await look()
    version = servable(tmp_path, "m")
    await fleet.load_first(version)
    fleet.pin(version)
    await look()
    await until(lambda: fleet.instances_with(version.triton_name) == ("a", "c"))
    tritons["b"].down = None
    await look()
    await until(lambda: fleet.instances_with(version.triton_name) == ("a", "b", "c"))
    await fleet.unload(version)
    assert fleet.instances_with(version.triton_name) == ()
    assert [directories(tmp_path, name) for name in ("a", "b", "c")] == [[], [], []]
    for found in fleet.controllers.values():
        await found.close()


async def test_a_load_leaves_an_instance_whose_line_died(
    tmp_path: Path, fleet: Fleet, news_of_fleet: FleetNews, executor: Executor
) -> None:
    tritons = {}
    for name in ("a", "b"):
        found, tritons[name] = controller(name, tmp_path / name, fleet, news_of_fleet, executor)
        fleet.add(found)
        await found.look()
    version = servable(tmp_path, "m")
    tritons["a"].held.add(version.triton_name)
    loading = asyncio.create_task(fleet.load_first(version))
    await until(lambda: tritons["a"].count("load", version.triton_name) == 1)
    tritons["a"].down = DeadlineExceeded("too late")
    for _ in range(3):
        await fleet.controllers["a"].look()
    await asyncio.wait_for(loading, 30)
    assert fleet.instances_with(version.triton_name) == ("b",)
    for found in fleet.controllers.values():
        await found.close()


async def test_no_instance_is_up(
    tmp_path: Path, fleet: Fleet, news_of_fleet: FleetNews, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "UP_SECONDS", 0.02)
    found, triton = controller("a", tmp_path / "a", fleet, news_of_fleet, executor)
    fleet.add(found)
    triton.down = unavailable()
    await found.look()
    with pytest.raises(LoadFailure, match="no Triton instance is up") as caught:
        await fleet.load_first(servable(tmp_path, "m"))
    assert caught.value.kind is FailureKind.PLATFORM
    await found.close()


async def test_two_instances_share_one_repository(
    tmp_path: Path, fleet: Fleet, news_of_fleet: FleetNews, executor: Executor
) -> None:
    tritons = []
    for name in ("a", "b"):
        found, triton = controller(name, tmp_path / "shared", fleet, news_of_fleet, executor)
        fleet.add(found)
        tritons.append(triton)
    for found in fleet.controllers.values():
        await found.look()
    version = servable(tmp_path, "m")
    await fleet.load_first(version)
    fleet.pin(version)
    for found in fleet.controllers.values():
        await found.look()
    await until(lambda: fleet.instances_with(version.triton_name) == ("a", "b"))
    await fleet.unload(version)
    assert directories(tmp_path, "shared") == []
    assert [triton.states[version.triton_name] for triton in tritons] == ["UNAVAILABLE"] * 2
    for found in fleet.controllers.values():
        await found.look()
        await found.close()
    assert [triton.count("unload", version.triton_name) for triton in tritons] == [1, 1]
