"""What of the published routes becomes a move."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from bridge.errors import Unavailable
from bridge.lifecycle.live import LiveTracker
from bridge.lifecycle.recorder import Recorder
from bridge.registry.live import Move, ServedRegistration, ServedVersion
from bridge.registry.records import Actor
from bridge.registry.registry import Registry
from bridge.registry.thread import RegistryThread
from bridge.serving.routes import ModelRoute, RegisteredRoute, Routes, ServableRoute, V2Route, VModelRoute


class Written:
    """Stands in for the registry."""

    def __init__(self, *live: str) -> None:
        self.batches: list[list[Move]] = []
        self.away = 0
        self._live = live

    def record_moves(self, moves: Sequence[Move], actor: Actor) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("the database is away")
        self.batches.append(list(moves))

    def live(self) -> dict[str, Any]:
        return {subject: {} for subject in self._live}

    @property
    def moves(self) -> list[Move]:
        return [move for batch in self.batches for move in batch]


class Thread:
    async def call(self, function: Any, *args: Any) -> Any:
        return function(*args)


class Follower:
    """A tracker whose moves are written when it is told so."""

    def __init__(self, *live: str) -> None:
        self.written = Written(*live)
        self._recorder = Recorder(Thread().call)
        self.tracker = LiveTracker(cast(Registry, self.written), self._recorder)

    async def learn(self) -> None:
        await self.tracker.learn(cast(RegistryThread, Thread()))

    async def write(self) -> list[Move]:
        """What was moved since the last call."""
        count = len(self.written.moves)
        running = asyncio.create_task(self._recorder.run())
        assert await self._recorder.flush(10)
        running.cancel()
        return self.written.moves[count:]


def servable(version: int, *instances: str, model: str = "m") -> ServableRoute:
    return ServableRoute(model, version, f"tfs.0a1b2c3d.{model}.{version}", instances, {}, b"")


def model(*servables: ServableRoute, **labels: int) -> ModelRoute:
    return ModelRoute("m", {item.version: item for item in servables}, labels, ())


def routes(*models: ModelRoute, **others: Any) -> Routes:
    return Routes(1, {item.name: item for item in models}, {}, **others)


def version(number: int, *others: int) -> ServedVersion:
    return ServedVersion("m", number, (number, *others))


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (model(), []),
        (model(servable(1)), []),
        (model(servable(1, "a")), [Move("model:m", version(1))]),
        (model(servable(1, "a"), servable(2)), []),
        (model(servable(1, "a"), servable(2, "a", "b")), [Move("model:m", version(2, 1))]),
        (
            model(servable(1, "a"), servable(2, "a"), old=1, new=2, none=3),
            [Move("model:m", version(2, 1)), Move("label:m/old", version(1)), Move("label:m/new", version(2))],
        ),
        (model(servable(1, "a"), servable(2), old=1, new=2), [Move("label:m/old", version(1))]),
    ],
    ids=["nothing", "no copy", "one", "the latest has no copy", "two", "labels", "labels without a copy"],
)
async def test_what_a_model_and_its_labels_resolve_to(
    follower: Follower, route: ModelRoute, expected: list[Move]
) -> None:
    follower.tracker.follow(routes(route))
    assert await follower.write() == expected


async def test_only_moves_are_written(follower: Follower) -> None:
    first = model(servable(1, "a"), stable=1)
    follower.tracker.follow(routes(first))
    assert len(await follower.write()) == 2
    follower.tracker.follow(routes(first))
    follower.tracker.follow(routes(model(servable(1, "a", "b"), stable=1)))
    assert await follower.write() == []
    follower.tracker.follow(routes(model(servable(1), stable=1)))
    assert sorted(move.subject for move in await follower.write() if move.served is None) == [
        "label:m/stable",
        "model:m",
    ]


async def test_every_move_is_written_in_order_and_many_at_once(follower: Follower) -> None:
    follower.written.away = 2
    for number in (1, 2, 1, 3):
        follower.tracker.follow(routes(model(servable(number, "a"))))
    assert [move.served for move in await follower.write()] == [version(number) for number in (1, 2, 1, 3)]
    assert len(follower.written.batches) == 1


@pytest.mark.parametrize(
    "route",
    [
        RegisteredRoute("r", servable=servable(7, "a", model="r")),
        RegisteredRoute("r", v2=V2Route("r", "mm.0a1b2c3d.r.7", ("a",))),
    ],
    ids=["SavedModel", "other"],
)
async def test_registered_models_and_vmodels(follower: Follower, route: RegisteredRoute) -> None:
    follower.tracker.follow(routes(registered={"r": route}, vmodels={"v": VModelRoute("v", "r")}))
    loaded = ServedRegistration("r", 7)
    assert await follower.write() == [Move("model:r", loaded), Move("vmodel:v", loaded)]
    follower.tracker.follow(routes(registered={"r": RegisteredRoute("r")}, vmodels={"v": VModelRoute("v", "r")}))
    assert await follower.write() == [Move("model:r", None), Move("vmodel:v", None)]
    follower.tracker.follow(routes())
    assert await follower.write() == []


async def test_goes_on_from_what_was_live() -> None:
    follower = Follower("model:m", "model:gone")
    await follower.learn()
    follower.tracker.follow(routes(model(servable(1, "a"))))
    assert await follower.write() == [Move("model:m", version(1)), Move("model:gone", None)]
