"""What the runner does besides answering: loading, refusing, describing itself, queueing, staying alive."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tests.runner.served import Refused, Served, floats, int32, strings
from tests.support import savedmodels
from tests.support.savedmodels import Array
from tests.support.tritonserver import TritonServer, write_model
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

Serve = Callable[..., Served]

INPUTS, OUTPUTS = {"x:0": 1}, {"y:0": 1}


def load_error(triton: TritonServer, repository: Path, name: str, saved_model: Path | None, **options: Any) -> str:
    write_model(repository, name, saved_model, INPUTS, OUTPUTS, **options)
    with pytest.raises(InferenceServerException) as failed:
        triton.client().load_model(name)
    return str(failed.value.message())


def test_a_model_that_tensorflow_refuses(triton: TritonServer, workplace: Path) -> None:
    saved_model = savedmodels.make("unstable", workplace / "unstable" / "1")
    text = load_error(triton, workplace / "repository", "unstable", saved_model)
    assert "tf_status=3 assertion failed: [the init op refuses]" in text
    assert "assertion failed: [the init op refuses]" in savedmodels.load_error(saved_model).text


def _without_graph(saved_model: Path) -> None:
    (saved_model / "saved_model.pb").unlink()


def _half_a_graph(saved_model: Path) -> None:
    path = saved_model / "saved_model.pb"
    os.truncate(path, path.stat().st_size // 2)


def _half_a_shard(saved_model: Path) -> None:
    os.truncate(saved_model / "variables" / "variables.data-00000-of-00001", 3)


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (_without_graph, "tf_status=5 Could not find SavedModel .pb or .pbtxt"),
    "graph": (_half_a_graph, "tf_status=11 Read less bytes than requested"),
    "shard": (_half_a_shard, "tf_status=11 Read less bytes than requested"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_saved_models(triton: TritonServer, workplace: Path, tmp_path: Path, damage: str) -> None:
    saved_model = savedmodels.half_plus_two(tmp_path, 1)
    inflict, sentence = DAMAGES[damage]
    inflict(saved_model)
    text = load_error(triton, workplace / "repository", f"damaged_{damage}", saved_model)
    assert sentence in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"runner": {"format": 2}}, "PlatformError: The model configuration has format 2"),
        ({"session_config": "ffff"}, "PlatformError: TensorFlow refuses the parameter session_config: "),
    ],
    ids=["format", "session_config"],
)
def test_faults_of_the_platform_carry_no_status(
    triton: TritonServer, workplace: Path, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    saved_model = savedmodels.half_plus_two(tmp_path, 1)
    text = load_error(triton, workplace / "repository", f"platform_{next(iter(options))}", saved_model, **options)
    assert sentence in text
    assert "tf_status" not in text


def test_a_probe_describes_the_runner(triton: TritonServer, workplace: Path) -> None:
    write_model(workplace / "repository", "probe", None, {}, {})
    triton.client().load_model("probe")
    description = Served(triton, "probe", workplace, {}, {}).describe()
    assert description["runner"] == "0.1.0"
    assert description["tensorflow"].startswith("2.")
    assert description["pid"] > 0
    assert 10 << 20 < description["memory_bytes"] < 200 << 20


def test_the_description_can_be_asked_with_outputs(serve: Serve) -> None:
    y, description = serve("half_plus_two").call({"x:0": floats(1)}, ["y:0", "bridge.runner"])
    assert y == floats(2.5)
    assert description.shape == (1,)


def test_a_tensor_that_the_graph_lacks(triton: TritonServer, workplace: Path, serve: Serve) -> None:
    saved_model = serve("half_plus_two").saved_model
    write_model(
        workplace / "repository", "lacks", saved_model, {"x:0": 1, "gone:0": 1, "x:7": 1}, {"y:0": 1, "no:0": 1}
    )
    triton.client().load_model("lacks")
    model = Served(triton, "lacks", saved_model, {"x:0": 1, "gone:0": 1, "x:7": 1}, {"y:0": 1, "no:0": 1})
    cases: Sequence[tuple[str, str, int, str]] = (
        ("gone:0", "y:0", 5, "FeedInputs: unable to find feed output gone:0"),
        ("x:0", "no:0", 5, "FetchOutputs node no:0: not found"),
        ("x:7", "y:0", 3, "Tensor x:7 is beyond the outputs of its operation"),
    )
    for feed, fetch, code, text in cases:
        with pytest.raises(Refused) as refused:
            model.call({feed: floats(1)}, [fetch])
        assert (refused.value.code, refused.value.text) == (code, text)


def test_an_output_of_another_dtype_than_configured(triton: TritonServer, workplace: Path, serve: Serve) -> None:
    saved_model = serve("half_plus_two").saved_model
    write_model(workplace / "repository", "other_dtype", saved_model, {"x:0": 1}, {"y:0": 3})
    triton.client().load_model("other_dtype")
    with pytest.raises(Refused, match="tf_status=13 Output y:0 is configured as int32 but is float"):
        Served(triton, "other_dtype", saved_model, {"x:0": 1}, {"y:0": 3}).call({"x:0": floats(1)}, ["y:0"])


HOSTILE_SHAPES = [[2**40, 2**40, 0], [-1, -3], [2], [1] * 300, "[3]", [3.0], {"a": 1}, [2**70, 0]]


@pytest.mark.parametrize("shape", HOSTILE_SHAPES, ids=lambda shape: str(shape)[:20])
def test_hostile_shapes_are_refused_and_the_runner_lives(serve: Serve, shape: Any) -> None:
    model = serve("half_plus_two")
    process = model.describe()["pid"]
    with pytest.raises(Refused) as refused:
        model.call({"x:0": floats(1, 2, 3)}, ["y:0"], shapes={"x:0": shape})
    assert refused.value.code == 3
    assert "x:0" in refused.value.text
    assert model.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]
    assert model.describe()["pid"] == process


def test_a_complex128_with_half_an_element(serve: Serve) -> None:
    model = serve("dtypes")
    request = model.request({"in_complex128:0": Array(18, (1,), bytes(16))}, ["out_complex128:0"])
    request.inputs[0].shape[:] = [3]
    request.raw_input_contents[0] = bytes(24)
    with pytest.raises(grpc.RpcError, match="tf_status=3 Input in_complex128:0 of type complex128 takes 2"):
        model._infer(request, timeout=10)


def test_one_failure_among_many_requests_reaches_only_its_own_client(serve: Serve) -> None:
    model = serve("failures")
    feeds, [fetch] = model.named("serving_default", {"x": floats(1)})
    [feed] = feeds

    def one(number: int) -> bool:
        value = 99.0 if number % 5 == 0 else float(number % 10)
        outcome = model.outcome(model.start({feed: floats(value)}, [fetch]), [fetch])
        if number % 5 == 0:
            return isinstance(outcome, Refused) and outcome.code == 3
        return outcome == [floats(value)]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(200)))


def test_a_bounded_queue_refuses_in_the_thread_state(serve: Serve) -> None:
    model = serve("slow", threads=1, queue_size=2)
    feeds = {"x:0": floats(1), "rounds:0": int32(2)}
    futures = [model.start(feeds, ["y:0"]) for _ in range(10)]
    outcomes = [model.outcome(future, ["y:0"]) for future in futures]
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert [outcome for outcome in outcomes if not isinstance(outcome, Refused)] == [[floats(2)]] * (10 - len(refused))
    assert len(refused) in (6, 7, 8)
    assert {outcome.grpc_code for outcome in refused} == {grpc.StatusCode.UNAVAILABLE}
    assert all("Exceeds maximum queue size" in outcome.details for outcome in refused)


def test_a_request_that_waited_past_its_timeout_is_not_run(serve: Serve) -> None:
    model = serve("slow", threads=1)
    slow = model.start({"x:0": floats(1), "rounds:0": int32(8)}, ["y:0"])
    wait_for(lambda: model.describe()["runs"] == 1, 10, "the first runs")
    late = model.start({"x:0": floats(1), "rounds:0": int32(4)}, ["y:0"], timeout_microseconds=20_000)
    assert model.outcome(slow, ["y:0"]) == [floats(2)]
    outcome = model.outcome(late, ["y:0"])
    assert isinstance(outcome, Refused)
    assert (outcome.grpc_code, outcome.details.endswith("Request timeout expired")) == (
        grpc.StatusCode.UNAVAILABLE,
        True,
    )


def test_runs_go_side_by_side(serve: Serve) -> None:
    model = serve("slow", threads=4)
    feeds = {"x:0": floats(1), "rounds:0": int32(1)}
    model.call(feeds, ["y:0"])
    long = model.start({"x:0": floats(5), "rounds:0": int32(40)}, ["y:0"])
    assert model.call(feeds, ["y:0"]) == [floats(2)]
    assert not long.done()
    assert model.outcome(long, ["y:0"]) == [floats(6)]


def test_eight_clients_while_the_state_flips(serve: Serve) -> None:
    """Runs of very different length, so that the runner keeps changing between its two states."""
    model = serve("slow", threads=4)

    def client(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(60):
            values = [float(generator.randrange(1 << 20)) for _ in range(generator.choice((4, 300, 20_000)))]
            rounds = int32(int(generator.random() < 0.03))
            answer = model.call({"x:0": floats(*values), "rounds:0": rounds}, ["y:0"])
            assert answer == [floats(*(value + 1 for value in values))]

    with ThreadPoolExecutor(8) as pool:
        for result in [pool.submit(client, seed) for seed in range(8)]:
            result.result()


def test_memory_does_not_grow_with_requests(serve: Serve) -> None:
    """Ten kinds of requests, errors among them, each of a megabyte: a leak of any would show as 60 MB or more."""
    model, failing = serve("dtypes"), serve("failures")
    megabyte = 1 << 20
    feeds, fetches = failing.named("reshape", {"x": floats(*[0.0] * (megabyte // 4)), "shape": int32(3)})
    requests: list[tuple[Served, dict[str, Array], list[str]]] = [
        (model, {"in_string:0": strings(*[b"s" * 1000] * 1000)}, ["out_string:0"]),
        (model, {"in_float:0": Array(1, (megabyte // 4,), bytes(megabyte))}, ["out_float:0"]),
        (model, {"in_bfloat16:0": Array(14, (megabyte // 2,), bytes(megabyte))}, ["out_bfloat16:0"]),
        (model, {"in_string:0": strings(b"s" * megabyte)}, ["out_float:0"]),
        (failing, feeds, fetches),
    ]

    def burst(times: int) -> None:
        for _ in range(times):
            for served, inputs, outputs in requests:
                served.outcome(served.start(inputs, outputs), outputs)

    def memory() -> int:
        return int(model.describe()["memory_bytes"] + failing.describe()["memory_bytes"])

    burst(15)
    before = memory()
    burst(60)
    assert memory() - before < 30 << 20


def test_unloading_ends_the_process_and_a_load_brings_a_new_one(serve: Serve) -> None:
    model = serve("half_plus_two", fresh=True)
    process = model.describe()["pid"]
    client = model.triton.client()
    client.unload_model(model.name)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline, "the stub does not end"
        time.sleep(0.05)
    client.load_model(model.name)
    assert model.call({"x:0": floats(1)}, ["y:0"]) == [floats(2.5)]
    assert model.describe()["pid"] != process


def test_triton_counts_the_requests(serve: Serve) -> None:
    model = serve("half_plus_two", fresh=True)
    for _ in range(3):
        model.call({"x:0": floats(1)}, ["y:0"])
    statistics = model.statistics(service_pb2.ModelStatisticsRequest(name=model.name)).model_stats[0]
    assert statistics.inference_stats.success.count == 3
