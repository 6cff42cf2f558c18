"""`bridge serve` with many models in the routes: python benchmarks/many_models.py COUNT serve …

Beside each model stand copies of its route under other names, up to COUNT models in all. They answer from the same
Triton model, since a thousand loaded SavedModels would measure the machine's memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import bridge.lifecycle.control_plane
from bridge.cli.main import main
from bridge.lifecycle.publisher import Publisher
from bridge.serving.routes import InstanceRoute, ModelRoute

COUNT = int(sys.argv.pop(1))


class ManyModelsPublisher(Publisher):
    """Publishes COUNT models."""

    def __init__(
        self,
        models: Callable[[], Iterable[ModelRoute]],
        instances: Callable[[], Mapping[str, InstanceRoute]],
    ) -> None:
        super().__init__(lambda: multiplied(list(models())), instances)


def multiplied(models: list[ModelRoute]) -> Iterator[ModelRoute]:
    yield from models
    for number in range(COUNT - len(models) if models else 0):
        yield copy(models[number % len(models)], f"copy_{number}")


def copy(model: ModelRoute, name: str) -> ModelRoute:
    servables = {version: replace(servable, model=name) for version, servable in model.servables.items()}
    return replace(model, name=name, servables=servables)


if __name__ == "__main__":
    bridge.lifecycle.control_plane.Publisher = ManyModelsPublisher  # type: ignore[attr-defined]
    main()
