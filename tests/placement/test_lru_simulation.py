"""The cache against a plain simulation: 200 models, two instances with room for 10 each, Zipf 1.0. Fake instances."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import Random

from bridge.placement.settings import PlacementSettings
from tests.placement.fakes import MIB, World

MODELS, ROOM, REQUESTS = 200, 10, 2000


def zipf(random: Random) -> list[str]:
    weights = [1 / rank for rank in range(1, MODELS + 1)]
    return [f"m{number}" for number in random.choices(range(MODELS), weights, k=REQUESTS)]


def simulated_hits(trace: Sequence[str]) -> int:
    """Two LRU caches; a miss goes to the one with more room, then to the one whose oldest model is older."""
    caches: list[OrderedDict[str, int]] = [OrderedDict(), OrderedDict()]
    hits = 0
    for time, model in enumerate(trace):
        holder = next((cache for cache in caches if model in cache), None)
        if holder is not None:
            hits += 1
            holder.move_to_end(model)
        else:
            holder = min(caches, key=lambda cache: (len(cache), next(iter(cache.values()), 0)))
            if len(holder) == ROOM:
                holder.popitem(last=False)
        holder[model] = time
    return hits


async def test_the_hit_rate_is_that_of_lru(make_world: Callable[..., World]) -> None:
    random = Random(7)
    trace = zipf(random)
    world = make_world(PlacementSettings(default_size=MIB, second_copies=False))
    for name in ("a", "b"):
        world.add(name, ROOM * 10 * MIB + 2 * MIB, unload_ms=30)
    for number in range(MODELS):
        world.catalog.register(f"m{number}", 10 * MIB)
    hits = 0
    for model in trace:
        if world.where(model):
            hits += 1
        else:
            await world.load(model, urgent=True)
        world.placement.used(model, 1)
        await world.clock.advance(random.randrange(5, 50))
    loads = sum(len(instance.loads) for instance in world.instances.values())
    assert loads == REQUESTS - hits
    assert abs(hits - simulated_hits(trace)) / REQUESTS <= 0.03
    assert all(instance.most_bytes <= instance.capacity for instance in world.instances.values())
