"""When an instance's copies are warmed up, with a double of Triton that only keeps count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.copies import InstanceLimits
from bridge.lifecycle.instance import InstanceController
from bridge.lifecycle.servable import Servable, preparer
from bridge.serving.routes import InstanceRoute
from bridge.serving.single_copy import Send
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.instance import FailureKind, IndexEntry, LoadFailure
from model_repo_sync.repository import ModelRepository
from model_repo_sync.triton_config import RunnerOptions
from tests.model_repo_sync.builders import write
from tests.serving.waiting import until

DEPLOYMENT = "0123abcd"


class Triton:
    """Loads and unloads at once."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.loads = 0

    async def index(self) -> Mapping[str, IndexEntry]:
        return {name: IndexEntry(state, "") for name, state in self.states.items()}

    async def load(self, name: str, timeout: float) -> None:
        self.loads += 1
        self.states[name] = "READY"

    async def unload(self, name: str, timeout: float) -> None:
        self.states[name] = "UNAVAILABLE"

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        return []

    async def ping(self, name: str, timeout: float) -> None:
        """Every runner lives."""

    async def close(self) -> None:
        """There is no connection."""


class Fleet:
    """What is wanted; `elsewhere` are the instances that hold copies already. Hears the news without using them."""

    def __init__(self) -> None:
        self.wanted: dict[str, Servable] = {}
        self.elsewhere: tuple[str, ...] = ()

    def servables(self) -> Mapping[str, Servable]:
        return self.wanted

    def is_known(self, triton_name: str, instance: str) -> bool:
        return True

    def instances_with(self, triton_name: str) -> tuple[str, ...]:
        return self.elsewhere

    def copies_changed(self, triton_names: Collection[str]) -> None: ...

    def copy_loaded(self, instance: str, servable: Servable) -> None: ...

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None: ...

    def instance_changed(self, instance: str, up: bool, reason: str) -> None: ...


class WarmUps:
    """Counts warm-ups; each raises `failure` if there is one."""

    def __init__(self, triton: Triton) -> None:
        self._triton = triton
        self.count = 0
        self.failure: BridgeError | None = None

    async def __call__(self, servable: Servable, send: Send, longest: float) -> None:
        assert self._triton.states[servable.triton_name] == "READY"
        assert await send(ModelCall(servable.triton_name, [], []), longest) == []
        assert longest == 7.0
        self.count += 1
        if self.failure is not None:
            raise self.failure


async def fit(instance: object) -> None:
    """Every instance is."""


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Place:
    """An instance that is up, and a servable for it."""

    def __init__(self, directory: Path, executor: Executor) -> None:
        self.triton, self.fleet = Triton(), Fleet()
        self.warm_ups = WarmUps(self.triton)
        repository = ModelRepository(str(directory / "repository"), DEPLOYMENT)
        limits = InstanceLimits(load_concurrency=1, load_timeout=7.0)
        self.controller = InstanceController(
            "one", repository, self.fleet, self.fleet, executor, limits, fit, self.warm_ups
        )
        self.controller.attach(self.triton, InstanceRoute("one", grpc="127.0.0.1:1", http=""))  # type: ignore[arg-type]
        source = write(directory / "source" / "1")
        self.servable = preparer(DEPLOYMENT, RunnerOptions())("m", 1, str(source))

    async def serve(self) -> None:
        """Let the controller find that the servable is wanted here and missing."""
        self.fleet.wanted = {self.servable.triton_name: self.servable}
        await self.controller.look()
        await until(lambda: self.servable.triton_name in self.controller.loaded)


@pytest.fixture
async def place(tmp_path: Path, executor: Executor) -> Place:
    place = Place(tmp_path, executor)
    await place.controller.look()
    assert place.controller.up
    return place


async def test_a_first_copy_is_warmed_up_before_it_counts_as_loaded(place: Place) -> None:
    await place.controller.load(place.servable)
    assert place.controller.loaded == {place.servable.triton_name}
    assert place.warm_ups.count == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (CallError("refused", Code.INVALID_ARGUMENT, Fault.MODEL), FailureKind.MODEL),
        (BridgeError("no records", Code.DATA_LOSS), FailureKind.MODEL),
        (CallError("the runner died", Code.UNAVAILABLE, Fault.RUNNER), FailureKind.PLATFORM),
        (CallError("no connection", Code.UNAVAILABLE, Fault.CONNECTION), FailureKind.PLATFORM),
    ],
)
async def test_a_copy_whose_warm_up_fails_is_taken_off(place: Place, failure: BridgeError, kind: FailureKind) -> None:
    place.warm_ups.failure = failure
    with pytest.raises(LoadFailure) as raised:
        await place.controller.load(place.servable)
    assert (raised.value.kind, raised.value.code, raised.value.message) == (kind, failure.code, failure.message)
    assert place.controller.loaded == set()
    assert place.triton.states == {place.servable.triton_name: "UNAVAILABLE"}


@pytest.mark.parametrize(("elsewhere", "warm_ups"), [((), 0), (("two",), 1)])
async def test_a_copy_that_requests_wait_for_is_not_warmed_up_first(
    place: Place, elsewhere: tuple[str, ...], warm_ups: int
) -> None:
    place.fleet.elsewhere = elsewhere
    await place.serve()
    assert (place.triton.loads, place.warm_ups.count) == (1, warm_ups)
