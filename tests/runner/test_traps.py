"""Ways in which the stub of Triton 2.51 fails silently, each of which the runner has to avoid."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests.runner.served import Served, floats, int32
from tests.support import savedmodels
from tests.support.savedmodels import Array
from tests.support.tritonserver import RUNNER, TritonServer, backend_directory, write_model

pytestmark = pytest.mark.integration

Serve = Callable[..., Served]


def test_trap_output_memory_lives_until_the_response_is_sent(serve: Serve) -> None:
    """pb.Tensor copies nothing: freed outputs would come back as other requests' bytes."""
    model = serve("dtypes")

    def client(seed: int) -> bool:
        generator = random.Random(seed)
        for _ in range(40):
            size = generator.choice((4, 1000, 100_000)) * 4
            feeds = {
                "in_float:0": Array(1, (size // 4,), generator.randbytes(size)),
                "in_bfloat16:0": Array(14, (size // 2,), generator.randbytes(size)),
                "in_complex128:0": Array(18, (size // 16,), generator.randbytes(size)),
            }
            answer = model.call(feeds, ["out_float:0", "out_bfloat16:0", "out_complex128:0"])
            if answer != list(feeds.values()):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(client, range(8)))


def test_trap_numpy_2_is_refused(triton: TritonServer, workplace: Path, tmp_path: Path) -> None:
    """The stub then sends empty outputs with status 200. The runner here is told a version of 2."""
    runner = tmp_path / "runner"
    runner.mkdir()
    entry = (RUNNER / "model.py").read_text()
    (runner / "model.py").write_text(entry + '\nimport numpy\nnumpy.__version__ = "2.1.3"\n')
    (runner / "tensorflow_engine").symlink_to(RUNNER / "tensorflow_engine", target_is_directory=True)
    saved_model = savedmodels.half_plus_two(tmp_path, 1)
    backends = backend_directory(tmp_path / "backends", runner)
    write_model(tmp_path / "repository", "numpy2", saved_model, {"x:0": 1}, {"y:0": 1})
    with (
        TritonServer.start(backends, tmp_path / "repository") as server,
        pytest.raises(InferenceServerException, match=r"needs numpy below 2 and found 2\.1\.3: install 'numpy<2'"),
    ):
        server.client().load_model("numpy2")


def test_trap_the_stub_runs_the_python_of_this_environment(serve: Serve) -> None:
    """PYTHONPATH is ignored and libpython comes by the loader's path; a wrong one loads and fails later."""
    model = serve("half_plus_two")
    maps = Path(f"/proc/{model.describe()['pid']}/maps").read_text()
    assert len(set(re.findall(r"\S*libpython3\S*", maps))) == 1
    assert "libtensorflow_cc.so.2" in maps


def test_trap_the_working_directory_cannot_shadow_modules(serve: Serve) -> None:
    """The stub imports from its working directory first, so that has to be an empty one."""
    model = serve("half_plus_two")
    assert list(Path(f"/proc/{model.describe()['pid']}/cwd").iterdir()) == []


def test_trap_tritons_names_are_used_after_the_import(serve: Serve) -> None:
    """pb.TritonError does not exist while the model is imported; an error answer proves that it is found later."""
    model = serve("half_plus_two")
    model.fails_as_tensorflow({"x2:0": floats(1)}, ["y:0"])


def test_trap_no_bytecode_beside_the_saved_model(serve: Serve) -> None:
    """A file that appears in the version's directory would make the next load a reload."""
    model = serve("half_plus_two", fresh=True)
    process = model.describe()["pid"]
    model.triton.client().load_model(model.name)
    assert model.describe()["pid"] == process


@pytest.mark.parametrize("fast", [True, False], ids=["synchronous", "threads"])
def test_trap_requests_that_arrive_together_are_not_held_back(serve: Serve, fast: bool) -> None:
    """With a limit on its queue Triton loses wake-ups: a burst of ten then takes up to five half seconds."""
    model = serve("slow", fresh=True)
    feeds = {"x:0": floats(1), "rounds:0": int32(0)}
    for _ in range(60 if fast else 1):
        model.call(feeds, ["y:0"])
    start = time.monotonic()
    for _ in range(10):
        for future in [model.start(feeds, ["y:0"]) for _ in range(10)]:
            assert model.outcome(future, ["y:0"]) == [floats(2)]
    assert time.monotonic() - start < 3
