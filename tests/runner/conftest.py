"""One tritonserver and one TensorFlow process for all tests of the runner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tritonserver import TritonServer, backend_directory


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runner")


@pytest.fixture(scope="session")
def triton(workplace: Path) -> Iterator[TritonServer]:
    backends = backend_directory(workplace / "backends")
    with TritonServer.start(backends, workplace / "repository") as server:
        yield server
