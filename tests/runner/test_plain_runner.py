"""The runner as it is copied to a Triton whose Python its compiled part was not built for: the same answers."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator

import pytest

from model_repo_sync.runner.tensorflow_engine import native
from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from tests.runner.served import Served, floats
from tests.runner.test_answers import content
from tests.support import savedmodels
from tests.support.savedmodels import Array
from tests.support.tritonserver import RUNNER, TritonServer, backend_directory

pytestmark = pytest.mark.integration


Load = Callable[[str], Served]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Serve a SavedModel of a kind by such a runner."""
    directory = tmp_path_factory.mktemp("plain")
    shutil.copytree(RUNNER, directory / "runner", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    backends = backend_directory(directory / "backends", directory / "runner")
    with TritonServer.start(backends, directory / "repository") as server:
        yield lambda kind: Served.load(
            server, directory / "repository", savedmodels.make(kind, directory / "models" / kind / "1")
        )


def test_the_compiled_part_is_what_other_tests_test() -> None:
    assert native.RUN is not None


def test_answers_without_the_compiled_part(load: Load) -> None:
    model = load("dtypes")
    for shape in ((), (3,), (0, 2), (2, 3), (40_000,)):
        feeds = {
            f"in_{dtype.name}:0": Array(dtype.number, shape, content(dtype, math.prod(shape)))
            for dtype in DTYPES.values()
        }
        model.equals_tensorflow(feeds, [f"out_{dtype.name}:0" for dtype in DTYPES.values()])


def test_errors_without_the_compiled_part(load: Load) -> None:
    model = load("failures")
    feeds, fetches = model.named("serving_default", {"x": floats(99)})
    model.fails_as_tensorflow(feeds, fetches)
    feeds, fetches = model.named("serving_default", {"x": floats(1)})
    model.equals_tensorflow(feeds, fetches)
