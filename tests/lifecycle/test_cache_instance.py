"""A Triton instance as placement sees it: against a double that fails on purpose, and a real Triton, measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bridge.errors import BridgeError, Code, NotFound, Unavailable
from bridge.lifecycle.cache_instance import ControlledInstance
from bridge.lifecycle.copies import InstanceLimits
from bridge.lifecycle.instance import InstanceController
from bridge.lifecycle.servable import Servable
from bridge.placement.clock import SystemClock
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import ErrorKind, Loadable
from bridge.placement.placement import Placement
from bridge.placement.settings import PlacementSettings
from bridge.serving.routes import InstanceRoute
from bridge.triton.calls import CallError, Fault
from bridge.triton.instance import RunnerInfo, TritonInstance
from model_repo_sync.repository import ModelRepository
from model_repo_sync.runner.tensorflow_engine.machine import available_memory
from tests.lifecycle.scripted_triton import DEPLOYMENT, News, controller, fit, servable, unavailable
from tests.placement.fakes import FakeCatalog, FakeClock, FakeRouter, Recorder
from tests.serving.waiting import until
from tests.support import savedmodels
from tests.support.tritonserver import TritonServer, backend_directory

MIB = 1 << 20


class Everything:
    """Nothing has to be there, everything may."""

    def servables(self) -> Mapping[str, Servable]:
        return {}

    def is_known(self, triton_name: str, instance: str) -> bool:
        return True

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        return ()


class Content:
    """A model whose files are prepared already, or cannot be."""

    def __init__(self, servable: Servable, failure: BridgeError | None = None) -> None:
        self.servable = servable
        self.failure = failure

    @property
    def triton_name(self) -> str:
        return self.servable.triton_name

    @asynccontextmanager
    async def prepared(self) -> AsyncIterator[Servable]:
        if self.failure is not None:
            raise self.failure
        yield self.servable


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


class Place:
    """An instance on a double of Triton, and a model."""

    def __init__(self, directory: Path, executor: Executor) -> None:
        self.controller, self.triton = controller("one", directory / "repository", Everything(), News(), executor)
        self.instance = ControlledInstance(self.controller, lambda: 7, frozenset({"gpu"}))
        self.content = Content(servable(directory, "m"))
        self.model = Loadable("m", 1, "tensorflow", 0, self.content)


@pytest.fixture
async def place(tmp_path: Path, executor: Executor) -> AsyncIterator[Place]:
    place = Place(tmp_path, executor)
    await place.controller.look()
    yield place
    await place.controller.close()


async def test_what_placement_sees(place: Place) -> None:
    assert (place.instance.name, place.instance.capacity, place.instance.labels) == ("one", 7, {"gpu"})
    assert place.instance.up
    place.controller.detach("gone")
    assert not place.instance.up


async def test_load_and_unload(place: Place) -> None:
    place.triton.memory_bytes = 60
    assert await place.instance.load(place.model) == 60
    assert place.instance.held == {place.content.triton_name}
    assert place.content.triton_name in place.controller.loaded
    await place.instance.unload(place.model)
    assert not place.instance.held
    assert place.triton.states[place.content.triton_name] == "UNAVAILABLE"


@pytest.mark.parametrize("changed", [False, True])
async def test_a_copy_that_an_earlier_process_left(
    place: Place, tmp_path: Path, executor: Executor, changed: bool
) -> None:
    await place.instance.load(place.model)
    name = place.content.triton_name
    after, triton = controller("one", tmp_path / "repository", Everything(), News(), executor)
    triton.states[name] = "READY"
    await after.look()
    instance = ControlledInstance(after, lambda: 7)
    assert set(instance.found) == {name}
    if changed:
        place.content.servable = replace(place.content.servable, config=place.content.servable.config + "\n")
    instance.keep(name)
    await instance.load(place.model)
    assert triton.count("load", name) == int(changed), "what is there just so is not loaded again"
    assert name in after.loaded
    assert instance.held == {name}
    await after.close()


async def test_files_that_are_the_models_fault(place: Place) -> None:
    place.content.failure = NotFound("there is no such directory")
    with pytest.raises(PlacementLoadError, match=r"^NOT_FOUND: there is no such directory$") as caught:
        await place.instance.load(place.model)
    assert (caught.value.kind, caught.value.code) == (ErrorKind.MODEL, Code.INTERNAL)


async def test_a_load_that_the_runner_refuses(place: Place) -> None:
    place.triton.refused.add(place.content.triton_name)
    with pytest.raises(PlacementLoadError, match=r"^INVALID_ARGUMENT: refused$") as caught:
        await place.instance.load(place.model)
    assert caught.value.kind is ErrorKind.MODEL


async def test_a_load_that_fails_with_the_platform(place: Place) -> None:
    place.controller.detach("killed")
    with pytest.raises(PlacementLoadError, match="Triton one is down: killed") as caught:
        await place.instance.load(place.model)
    assert (caught.value.kind, caught.value.code) == (ErrorKind.PLATFORM, Code.UNAVAILABLE)


async def test_memory_counts_until_triton_let_go(place: Place) -> None:
    await place.instance.load(place.model)
    place.triton.stuck.add(place.content.triton_name)
    with pytest.raises(Unavailable, match="instance one did not let go of"):
        await place.instance.unload(place.model)
    assert place.instance.held
    place.triton.stuck.clear()
    await place.instance.unload(place.model)
    assert not place.instance.held


async def unmeasured(name: str) -> RunnerInfo:
    """As Triton answers for a model that is not the runner's."""
    raise CallError("unexpected inference output 'bridge.runner'", Code.INVALID_ARGUMENT, Fault.MODEL)


async def test_on_a_gpu_its_memory_counts(place: Place) -> None:
    place.triton.memory_bytes, place.triton.device_bytes = 60, 500
    assert await place.instance.load(place.model) == 500
    assert await place.instance.model_size(place.model) == 500


async def test_a_copy_that_cannot_be_measured_serves_all_the_same(place: Place) -> None:
    place.controller.describe = unmeasured  # type: ignore[method-assign]
    assert await place.instance.load(place.model) == 0
    assert place.content.triton_name in place.controller.loaded


async def test_no_size_of_what_cannot_be_asked(place: Place) -> None:
    place.triton.down = unavailable()
    with pytest.raises(Unavailable):
        await place.instance.model_size(place.model)
    place.controller.detach("killed")
    with pytest.raises(Unavailable, match="Triton one is down: killed"):
        await place.instance.model_size(place.model)


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[TritonServer]:
    with TritonServer.start(backend_directory(tmp_path / "backends"), tmp_path / "models") as server:
        yield server


@pytest.mark.integration
async def test_measured_sizes_decide_what_stays(tmp_path: Path, triton: TritonServer, executor: Executor) -> None:
    """On a real Triton: the first model is measured, then there is room for two and a half of its kind."""
    limits = InstanceLimits(load_concurrency=2, load_timeout=60.0)
    repository = ModelRepository(tmp_path / "models", DEPLOYMENT)
    one = InstanceController("one", repository, Everything(), News(), executor, limits, fit)
    route = InstanceRoute("one", grpc=f"127.0.0.1:{triton.grpc_port}", http="")
    one.attach(TritonInstance.connect(route), route)
    await one.look()
    capacity = available_memory()
    clock, recorder = SystemClock(), Recorder()
    catalog = FakeCatalog(FakeClock())
    settings = PlacementSettings(default_size=200 * MIB, second_copies=False)
    placement = Placement(catalog, FakeRouter(), recorder, clock, settings, Random(1))
    placement.add_instance(ControlledInstance(one, lambda: capacity))

    async def load(name: str) -> None:
        savedmodels.half_plus_two(tmp_path / name, 1)
        catalog.models[name] = Loadable(name, 1, "tensorflow", 0, Content(servable(tmp_path, name)))
        await placement.ensure_loaded(name, clock.now())
        await until(lambda: ("sized", name, "one") in [item[:3] for item in recorder.heard], 10.0)

    try:
        for name in ("first", "second"):
            await load(name)
        sizes = [size for what, _, _, size in recorder.heard if what == "sized"]
        assert all(10 * MIB < size < 200 * MIB for size in sizes)
        assert placement.instances()[0].used == sum(sizes)
        capacity = sum(sizes) + 240 * MIB
        await load("third")
        assert [len(placement.loaded(name)) for name in ("first", "second", "third")] == [1, 1, 1]
        capacity = sum(sizes) + 220 * MIB
        await load("fourth")
        await until(lambda: len(one.loaded) == placement.instances()[0].models, 20.0)
        assert placement.loaded("first") == ()
        assert placement.loaded("fourth") == ("one",)
        assert placement.instances()[0].used <= capacity
    finally:
        await placement.close()
        await one.close()
