"""The engine process of a device: right answers from it, one for all models, and what happens when it dies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tritonclient.utils import InferenceServerException

from model_repo_sync.batching import Batching
from model_repo_sync.protos.tensorflow_serving.session_bundle_config_pb2 import BatchingParameters
from model_repo_sync.protos.text import from_text
from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from tests.runner.served import Refused, Served, floats, int32, strings
from tests.runner.test_answers import content
from tests.support import processes, savedmodels
from tests.support.processes import Process
from tests.support.savedmodels import Array
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

Serve = Callable[..., Served]

END_SECONDS = 10.0
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def share(serve: Serve) -> Serve:
    """Serve a model of a kind that runs in the engine process; with options a model of its own."""
    loaded: dict[str, Served] = {}

    def share(kind: str, **options: Any) -> Served:
        if options or kind not in loaded:
            served = serve(kind, processes="per-device", **options)
            return served if options else loaded.setdefault(kind, served)
        return loaded[kind]

    return share


@pytest.fixture
def own_triton(tmp_path: Path) -> Iterator[TritonServer]:
    """A server that a test may kill the engine of, or kill."""
    with TritonServer.start(backend_directory(tmp_path / "backends"), tmp_path / "repository") as server:
        yield server


def engines(triton: TritonServer) -> list[Process]:
    return [process for process in processes.naming(triton.shm_prefix) if "engine.py" in process.command]


def runners(triton: TritonServer) -> list[Process]:
    return [process for process in processes.naming(triton.shm_prefix) if "_python_backend_stub" in process.program]


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,), (2, 0, 4)], ids=str)
def test_all_dtypes(share: Serve, shape: tuple[int, ...]) -> None:
    feeds = {
        f"in_{dtype.name}:0": Array(dtype.number, shape, content(dtype, math.prod(shape))) for dtype in DTYPES.values()
    }
    share("dtypes").equals_tensorflow(feeds, [f"out_{dtype.name}:0" for dtype in DTYPES.values()])


def test_megabytes(share: Serve) -> None:
    number = Array(1, (4, MEGABYTE // 4), content(DTYPES[1], MEGABYTE))
    text = strings(b"s" * MEGABYTE, b"", b"t" * 3)
    share("dtypes").equals_tensorflow({"in_float:0": number, "in_string:0": text}, ["out_string:0", "out_float:0"])


def test_no_inputs(share: Serve) -> None:
    counter = share("counter")
    _, fetches = counter.named("get_counter", {})
    assert counter.call({}, fetches) == counter.call({}, fetches)


def test_tensorflows_errors(share: Serve) -> None:
    model = share("failures")
    feeds, fetches = model.named("serving_default", {"x": floats(99)})
    model.fails_as_tensorflow(feeds, fetches)
    with pytest.raises(Refused, match=r"x:0 of shape \[4\] needs 4 elements") as refused:
        share("half_plus_two").call({"x:0": floats(1)}, ["y:0"], shapes={"x:0": [4]})
    assert refused.value.code == 3


def test_a_model_that_tensorflow_refuses(share: Serve) -> None:
    with pytest.raises(InferenceServerException, match=r"tf_status=3 assertion failed: \[the init op refuses\]"):
        share("unstable", threads=2)


def test_one_engine_for_all_models_and_none_in_their_runners(share: Serve, triton: TritonServer) -> None:
    models = [share("half_plus_two"), share("dtypes")]
    [engine] = engines(triton)
    assert "libtensorflow_cc.so.2" in engine.maps()
    for model in models:
        description = model.describe()
        assert description["tensorflow"].startswith("2.")
        assert "libtensorflow" not in Path(f"/proc/{description['pid']}/maps").read_text()


def test_batches(share: Serve) -> None:
    patient = "max_batch_size { value: 8 } batch_timeout_micros { value: 200000 }"
    model = share("half_plus_two", batching=Batching(from_text(patient, BatchingParameters, "test")))
    futures = [model.start({"x:0": floats(number, shape=[1, 1])}, ["y:0"]) for number in range(16)]
    answers = [model.outcome(future, ["y:0"]) for future in futures]
    assert answers == [[floats(number / 2 + 2, shape=[1, 1])] for number in range(16)]
    assert model.describe()["runs"] < 16


def test_slow_runs_go_side_by_side(share: Serve) -> None:
    model = share("slow", threads=4)
    feeds = {"x:0": floats(1), "rounds:0": int32(1)}
    model.call(feeds, ["y:0"])
    long = model.start({"x:0": floats(5), "rounds:0": int32(40)}, ["y:0"])
    assert model.call(feeds, ["y:0"]) == [floats(2)]
    assert not long.done()
    assert model.outcome(long, ["y:0"]) == [floats(6)]


def test_eight_clients_of_two_models(share: Serve) -> None:
    half, dtypes = share("half_plus_two"), share("dtypes")

    def client(seed: int) -> None:
        for step in range(40):
            value = float(seed * 1000 + step)
            assert half.call({"x:0": floats(value)}, ["y:0"]) == [floats(value / 2 + 2)]
            assert dtypes.call({"in_float:0": floats(value)}, ["out_float:0"]) == [floats(value)]

    with ThreadPoolExecutor(8) as pool:
        for result in [pool.submit(client, seed) for seed in range(8)]:
            result.result()


def test_an_unloaded_model_leaves_the_others_alone(share: Serve, triton: TritonServer) -> None:
    kept, unloaded = share("half_plus_two"), share("half_plus_two", threads=3)
    assert unloaded.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]
    [engine] = engines(triton)
    triton.client().unload_model(unloaded.name)
    assert kept.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]
    assert engines(triton) == [engine]
    triton.client().load_model(unloaded.name)
    assert unloaded.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]


def test_memory_does_not_grow_with_requests(share: Serve, triton: TritonServer) -> None:
    """Kinds of requests of a megabyte each, errors among them: a leak of any would show as 30 MB or more."""
    model, failing = share("dtypes"), share("failures")
    feeds, fetches = failing.named("reshape", {"x": floats(*[0.0] * (MEGABYTE // 4)), "shape": int32(3)})
    requests: list[tuple[Served, dict[str, Array], list[str]]] = [
        (model, {"in_string:0": strings(*[b"s" * 1000] * 1000)}, ["out_string:0"]),
        (model, {"in_float:0": Array(1, (MEGABYTE // 4,), bytes(MEGABYTE))}, ["out_float:0"]),
        (failing, feeds, fetches),
    ]
    [engine] = engines(triton)

    def burst(times: int) -> int:
        for _ in range(times):
            for served, inputs, outputs in requests:
                served.outcome(served.start(inputs, outputs), outputs)
        return engine.status("RssAnon")

    before = burst(10)
    assert burst(35) - before < 15 << 10


@pytest.mark.slow
def test_the_engine_ends_when_nobody_needs_it(own_triton: TritonServer, tmp_path: Path) -> None:
    saved_model = savedmodels.half_plus_two(tmp_path, 1)
    model = Served.load(own_triton, tmp_path / "repository", saved_model, processes="per-device")
    [engine] = engines(own_triton)
    own_triton.client().unload_model(model.name)
    wait_for(lambda: not engine.alive, 30, "the engine ended")
    own_triton.client().load_model(model.name)
    assert model.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]


def test_a_dead_engine_takes_its_runners_along_and_a_load_brings_all_back(
    own_triton: TritonServer, tmp_path: Path
) -> None:
    saved_model = savedmodels.half_plus_two(tmp_path, 1)
    models = [Served.load(own_triton, tmp_path / "repository", saved_model, processes="per-device") for _ in range(2)]
    [engine] = engines(own_triton)
    engine.kill()
    wait_for(lambda: not runners(own_triton), END_SECONDS, "the runners ended, too")
    with pytest.raises(Refused, match="is not healthy"):
        models[0].call({"x:0": floats(1)}, ["y:0"])
    client = own_triton.client()
    for model in models:
        client.unload_model(model.name)
        client.load_model(model.name)
        assert model.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]
    [another] = engines(own_triton)
    assert another != engine


def test_a_request_in_flight_learns_at_once_that_the_engine_died(own_triton: TritonServer, tmp_path: Path) -> None:
    saved_model = savedmodels.make("slow", tmp_path / "slow" / "1")
    model = Served.load(own_triton, tmp_path / "repository", saved_model, processes="per-device")
    model.call({"x:0": floats(1), "rounds:0": int32(1)}, ["y:0"])
    futures = [model.start({"x:0": floats(1), "rounds:0": int32(400)}, ["y:0"]) for _ in range(2)]
    wait_for(lambda: model.describe()["runs"] == 3, END_SECONDS, "both run")
    engines(own_triton)[0].kill()
    for future in futures:
        outcome = model.outcome(future, ["y:0"])
        assert isinstance(outcome, Refused)
        assert "is not healthy" in outcome.details


def test_the_engine_ends_with_its_triton(own_triton: TritonServer, tmp_path: Path) -> None:
    saved_model = savedmodels.half_plus_two(tmp_path, 1)
    Served.load(own_triton, tmp_path / "repository", saved_model, processes="per-device")
    [engine] = engines(own_triton)
    own_triton.process.kill()
    wait_for(lambda: not engine.alive, END_SECONDS, "the engine ended")
