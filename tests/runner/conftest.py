"""One tritonserver and one TensorFlow process for all tests of the runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runner.served import Served
from tests.support import savedmodels
from tests.support.tritonserver import TritonServer, backend_directory


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runner")


@pytest.fixture(scope="session")
def triton(workplace: Path) -> Iterator[TritonServer]:
    backends = backend_directory(workplace / "backends")
    with TritonServer.start(backends, workplace / "repository") as server:
        yield server


@pytest.fixture(scope="session")
def serve(triton: TritonServer, workplace: Path) -> Callable[..., Served]:
    """Serve a SavedModel of a kind, loaded once; with options a model of its own."""
    loaded: dict[str, Served] = {}

    def serve(kind: str, fresh: bool = False, **options: Any) -> Served:
        saved_model = workplace / "models" / kind / "1"
        if not saved_model.exists():
            savedmodels.make(kind, saved_model)
        if fresh or options:
            return Served.load(triton, workplace / "repository", saved_model, **options)
        if kind not in loaded:
            loaded[kind] = Served.load(triton, workplace / "repository", saved_model)
        return loaded[kind]

    return serve
