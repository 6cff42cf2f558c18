"""Which instance is chosen. On fake instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from bridge.errors import Code, InvalidArgument
from bridge.placement.constraints import Constraint, TypeConstraints, parse
from bridge.placement.errors import PlacementLoadError
from bridge.placement.model import Status
from bridge.placement.settings import MINUTE, PlacementSettings
from tests.placement.fakes import MIB, World

MakeWorld = Callable[..., World]


async def test_models_are_spread(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(second_copies=False))
    for number in range(4):
        world.add(f"i{number}")
    for number in range(16):
        world.catalog.register(f"m{number}")
        await world.load(f"m{number}")
    assert [view.models for view in world.placement.instances()] == [4] * 4


async def test_free_bytes_count_as_well(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(second_copies=False))
    world.add("small", 200 * MIB)
    world.add("large", 4000 * MIB)
    for number in range(3):
        world.catalog.register(f"m{number}")
    await world.load("m0")
    assert world.where("m0") == {"large"}


async def test_equally_good_ones_are_chosen_at_random(make_world: MakeWorld) -> None:
    chosen: Counter[str] = Counter()
    for seed in range(40):
        world = make_world(PlacementSettings(), seed)
        for name in ("a", "b"):
            world.add(name)
        world.catalog.register("m")
        await world.load("m")
        chosen.update(world.where("m"))
    assert min(chosen["a"], chosen["b"]) >= 8


async def test_of_full_ones_that_with_the_oldest_model(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(default_size=MIB, second_copies=False))
    for name in ("a", "b"):
        world.add(name, 52 * MIB)
    for name in ("old", "young", "new"):
        world.catalog.register(name)
    await world.load("old")
    await world.clock.advance(10 * MINUTE)
    await world.load("young")
    await world.clock.advance(10 * MINUTE)
    there = world.where("old")
    await world.load("new", urgent=True)
    assert world.where("new") == there
    assert world.states(["old", "young"]) == ["NOT_LOADED", "LOADED"]


CONSTRAINTS = parse(
    {
        "gpu": {"required": ["cuda", "big"]},
        "picky": {"preferred": ["ssd"]},
        "nowhere": {"required": ["moon", "cuda"]},
        "_default": {},
    }
)


@pytest.mark.parametrize(
    ("model_type", "allowed"),
    [("gpu", {"gpu"}), ("picky", {"disk"}), ("any", {"plain", "disk"})],
    ids=["required", "preferred", "leaves-needed-ones-free"],
)
async def test_type_constraints(make_world: MakeWorld, model_type: str, allowed: set[str]) -> None:
    world = make_world(PlacementSettings(constraints=CONSTRAINTS, second_copies=False))
    world.add("plain")
    world.add("half", labels=["cuda"]).up = False
    world.add("gpu", labels=["cuda", "big"])
    world.add("disk", labels=["ssd"])
    for number in range(6):
        world.catalog.register(f"m{number}", model_type=model_type)
        await world.load(f"m{number}")
        assert world.where(f"m{number}") <= allowed


async def test_missing_labels_are_named(make_world: MakeWorld) -> None:
    world = make_world(PlacementSettings(constraints=CONSTRAINTS))
    world.add("gpu", labels=["cuda", "big"])
    world.catalog.register("m", model_type="nowhere")
    ticket = world.placement.ensure_loaded("m", world.clock.now())
    with pytest.raises(PlacementLoadError) as caught:
        ticket.result()
    assert caught.value.message == (
        "Nowhere available to load: There are no running instances that meet the label requirements of type nowhere: "
        "[moon, cuda]"
    )
    assert caught.value.code is Code.UNAVAILABLE
    assert world.placement.status("m").status is Status.NOT_LOADED


@pytest.mark.parametrize(
    ("constraints", "model_type", "labels", "allows", "prefers"),
    [
        ({}, "t", [], True, True),
        ({"_default": {"required": ["x"]}}, "t", [], False, True),
        ({"_default": {"required": ["x"]}, "t": {"required": []}}, "t", [], True, True),
        ({"t": {"required": ["x"], "preferred": ["y", "z"]}}, "t", ["x"], True, False),
        ({"t": {"required": ["x"], "preferred": ["y", "z"]}}, "t", ["x", "z"], True, True),
        ({"other": {"required": ["x"]}}, "t", ["x"], True, False),
        ({"other": {"required": ["x"]}}, "t", ["y"], True, True),
    ],
)
def test_constraints(constraints: object, model_type: str, labels: list[str], allows: bool, prefers: bool) -> None:
    parsed = parse(constraints)
    assert parsed.allows(model_type, frozenset(labels)) is allows
    assert parsed.prefers(model_type, frozenset(labels)) is prefers


def test_no_constraints_allow_everything() -> None:
    assert TypeConstraints().of("t") == Constraint()


@pytest.mark.parametrize(
    "document",
    [[], "text", {"t": []}, {"t": {"require": []}}, {"t": {"required": "x"}}, {"t": {"preferred": [1]}}],
)
def test_malformed_constraints_are_refused(document: object) -> None:
    with pytest.raises(InvalidArgument):
        parse(document)
