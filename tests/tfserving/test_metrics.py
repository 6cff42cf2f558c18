"""The Prometheus page, line by line, after requests through real sockets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import BridgeError, Code
from bridge.tfserving.metrics import ServingMetrics
from bridge.tfserving.metrics_page import DEFAULT_PATH, metrics_path
from tests.support.official_client import OfficialClient
from tests.tfserving.conftest import half_plus_two, request
from tests.tfserving.server_thread import ServerThread

BODY = '{"instances": [1.0, 2.0, 5.0]}'
PREDICT = "/v1/models/half:predict"
X = {"x": {"dtype": "float32", "values": [1.0, 2.0, 5.0]}}

BOUNDS = [*(f"{10 * 1.8**power:.6g}" for power in range(33)), "+Inf"]
"""Of the latencies, in microseconds."""


@pytest.fixture
def fresh() -> Iterator[ServerThread]:
    """A server that nobody has asked anything."""
    server = ServerThread(page=True)
    server.publish(half_plus_two())
    yield server
    server.close()


def page(server: ServerThread) -> str:
    reply = request(server, "GET", DEFAULT_PATH)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain")
    return reply.body.decode()


def counted(server: ServerThread) -> list[str]:
    """The cells of the page without the prefix of all names; of a histogram only how often it was told something."""
    lines = [line for line in page(server).splitlines() if not line.startswith("#")]
    shown = [line for line in lines if not re.search(r"_(bucket|sum)\{", line)]
    return [line.removeprefix(":tensorflow:serving:") for line in shown]


def test_an_idle_server_shows_the_types(fresh: ServerThread) -> None:
    assert page(fresh).splitlines() == [
        "# TYPE :tensorflow:cc:saved_model:load_attempt_count counter",
        "# TYPE :tensorflow:cc:saved_model:load_latency counter",
        "# TYPE :tensorflow:serving:batching_session:input_batch_size histogram",
        "# TYPE :tensorflow:serving:batching_session:padding_size histogram",
        "# TYPE :tensorflow:serving:batching_session:processed_batch_size histogram",
        "# TYPE :tensorflow:serving:batching_session:queuing_latency histogram",
        "# TYPE :tensorflow:serving:batching_session:wrapped_run_count counter",
        "# TYPE :tensorflow:serving:mlmd_map gauge",
        "# TYPE :tensorflow:serving:model_warmup_latency histogram",
        "# TYPE :tensorflow:serving:model_warmup_records_read counter",
        "# TYPE :tensorflow:serving:request_count counter",
        "# TYPE :tensorflow:serving:request_example_count_total counter",
        "# TYPE :tensorflow:serving:request_example_counts histogram",
        "# TYPE :tensorflow:serving:request_latency histogram",
        "# TYPE :tensorflow:serving:request_log_count counter",
        "# TYPE :tensorflow:serving:runtime_latency histogram",
    ]


@pytest.mark.parametrize(
    ("rpc", "question", "cells"),
    [
        (
            "predict",
            {"spec": {"name": "half"}, "inputs": X},
            [
                'request_count{model_name="half",status="OK"} 1',
                'request_latency_count{model_name="half",API="Predict",entrypoint="GRPC"} 1',
                'runtime_latency_count{model_name="half",API="Predict",runtime="TF1"} 1',
            ],
        ),
        (
            "predict",
            {"spec": {"name": "no"}, "inputs": X},
            ['request_count{model_name="no",status="NOT_FOUND"} 1'],
        ),
        ("predict", {"inputs": X}, ['request_count{model_name="",status="INVALID_ARGUMENT"} 1']),
        ("classify", {}, ['request_count{model_name="",status="INVALID_ARGUMENT"} 1']),
        ("regress", {}, ['request_count{model_name="",status="INVALID_ARGUMENT"} 1']),
        ("multi_inference", {}, []),
        ("status", {"spec": {"name": "half"}}, []),
        ("status", {"spec": {"name": "no"}}, []),
        ("metadata", {"spec": {"name": "half"}, "fields": ["signature_def"]}, []),
    ],
)
def test_grpc(
    client: OfficialClient, fresh: ServerThread, rpc: str, question: dict[str, Any], cells: list[str]
) -> None:
    client.ask(fresh.address, rpc, **question)
    assert counted(fresh) == cells


@pytest.mark.parametrize(
    ("method", "target", "body", "cells"),
    [
        (
            "POST",
            PREDICT,
            BODY,
            [
                'request_count{model_name="half",status="OK"} 1',
                'request_latency_count{model_name="half",API="predict",entrypoint="REST"} 1',
                'runtime_latency_count{model_name="half",API="Predict",runtime="TF1"} 1',
            ],
        ),
        ("POST", PREDICT, "{", ['request_count{model_name="half",status="INVALID_ARGUMENT"} 1']),
        ("POST", "/v1/models/no:predict", BODY, ['request_count{model_name="no",status="NOT_FOUND"} 1']),
        ("POST", "/v1/models/half:PREDICT", BODY, ['request_count{model_name="half",status="INVALID_ARGUMENT"} 1']),
        ("POST", f"{PREDICT}?x=1", BODY, ['request_count{model_name="",status="INVALID_ARGUMENT"} 1']),
        ("GET", "/v1/nothing", "", ['request_count{model_name="",status="INVALID_ARGUMENT"} 1']),
        ("HEAD", "/v1/models/half", "", ['request_count{model_name="",status="INVALID_ARGUMENT"} 1']),
        (
            "GET",
            f"/v1/models/half/versions/{2**63}",
            "",
            ['request_count{model_name="half",status="INVALID_ARGUMENT"} 1'],
        ),
        (
            "GET",
            "/v1/models/half",
            "",
            [
                'request_count{model_name="half",status="OK"} 1',
                'request_latency_count{model_name="half",API="",entrypoint="REST"} 1',
            ],
        ),
        (
            "GET",
            "/v1/models/half/metadata",
            "",
            [
                'request_count{model_name="half",status="OK"} 1',
                'request_latency_count{model_name="half",API="",entrypoint="REST"} 1',
            ],
        ),
        ("OPTIONS", PREDICT, "", ['request_count{model_name="",status="FAILED_PRECONDITION"} 1']),
        ("GET", "/healthz", "", []),
        ("TRACE", PREDICT, "", []),
    ],
)
def test_rest(fresh: ServerThread, method: str, target: str, body: str, cells: list[str]) -> None:
    request(fresh, method, target, body)
    assert counted(fresh) == cells


def test_preflight(fresh: ServerThread) -> None:
    request(fresh, "OPTIONS", PREDICT, headers={"Origin": "https://example.com"})
    assert counted(fresh) == [
        'request_count{model_name="",status="OK"} 1',
        'request_latency_count{model_name="",API="",entrypoint="REST"} 1',
    ]


def test_buckets_of_a_latency(fresh: ServerThread) -> None:
    request(fresh, "POST", PREDICT, BODY)
    labels = 'model_name="half",API="predict",entrypoint="REST"'
    found = re.findall(
        rf"^:tensorflow:serving:request_latency_bucket\{{{labels},le=\"(.*)\"\}} ([01])$", page(fresh), re.MULTILINE
    )
    assert [bound for bound, _ in found] == BOUNDS
    counts = [int(count) for _, count in found]
    assert counts == sorted(counts)
    assert counts[-1] == 1
    [total] = re.findall(rf"^:tensorflow:serving:request_latency_sum\{{{labels}\}} (\d+)$", page(fresh), re.MULTILINE)
    assert 0 < int(total) < 10_000_000


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_any_method_gets_the_page(fresh: ServerThread, method: str) -> None:
    reply = request(fresh, method, DEFAULT_PATH)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain")
    assert reply.body.startswith(b"# TYPE ") or method == "HEAD"


def test_a_query_is_refused(fresh: ServerThread) -> None:
    reply = request(fresh, "GET", f"{DEFAULT_PATH}?x=1&y")
    assert (reply.status, reply.headers["content-type"]) == (400, "text/plain")
    assert reply.body.decode() == f"Unexpected path: {DEFAULT_PATH}?x=1&y. Should be {DEFAULT_PATH}"


@pytest.mark.parametrize("target", ["/monitoring/prometheus", f"{DEFAULT_PATH}/", DEFAULT_PATH.upper(), "/metrics"])
def test_other_paths_are_not_found(fresh: ServerThread, target: str) -> None:
    reply = request(fresh, "GET", target)
    assert (reply.status, reply.headers["content-type"]) == (404, "text/html")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", None),
        ("prometheus_config {}", None),
        ('prometheus_config { path: "/p" }', None),
        ("prometheus_config { enable: true }", DEFAULT_PATH),
        ('prometheus_config { enable: true, path: "/p" }', "/p"),
        ('prometheus_config: { enable: false path: "/p" }', None),
    ],
)
def test_monitoring_config(tmp_path: Path, text: str, path: str | None) -> None:
    file = tmp_path / "monitoring.config"
    file.write_text(f"{text}\n# a comment\n")
    assert metrics_path(str(file)) == path


def test_no_monitoring_config() -> None:
    assert metrics_path("") is None


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [
        (None, Code.NOT_FOUND, "{path}; No such file or directory"),
        ("prometheus_config { on: true }", Code.INVALID_ARGUMENT, "Invalid protobuf file: '{path}'"),
    ],
)
def test_bad_monitoring_config(tmp_path: Path, content: str | None, code: Code, sentence: str) -> None:
    file = tmp_path / "monitoring.config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BridgeError) as caught:
        metrics_path(str(file))
    assert (caught.value.code, caught.value.message) == (code, sentence.format(path=file))


def test_what_loads_warmups_examples_and_logs_leave() -> None:
    metrics = ServingMetrics()
    metrics.loaded("/m/1", True, 0.25)
    metrics.loaded("/m/1", False, 0.5)
    metrics.warmed("/m/1", "OK", 3, 0.000015)
    metrics.examples("m", 16)
    metrics.examples("m", 1)
    metrics.logged("m", Code.OK)
    metrics.logged("m", Code.UNAVAILABLE)
    lines = metrics.page().decode().splitlines()
    for line in (
        ':tensorflow:cc:saved_model:load_attempt_count{model_path="/m/1",status="fail"} 1',
        ':tensorflow:cc:saved_model:load_attempt_count{model_path="/m/1",status="success"} 1',
        ':tensorflow:cc:saved_model:load_latency{model_path="/m/1"} 750000',
        ':tensorflow:serving:model_warmup_latency_bucket{model_path="/m/1",status="OK",le="10"} 0',
        ':tensorflow:serving:model_warmup_latency_bucket{model_path="/m/1",status="OK",le="18"} 1',
        ':tensorflow:serving:model_warmup_records_read{model_path="/m/1",status="OK"} 3',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="1"} 0',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="2"} 1',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="16"} 1',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="32"} 2',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="16384"} 2',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="+Inf"} 2',
        ':tensorflow:serving:request_example_counts_sum{model="m"} 17',
        ':tensorflow:serving:request_example_count_total{model="m"} 17',
        ':tensorflow:serving:request_log_count{model_name="m",status_code="OK"} 1',
        ':tensorflow:serving:request_log_count{model_name="m",status_code="UNAVAILABLE"} 1',
    ):
        assert line in lines
    assert metrics.first_value("/tensorflow/serving/request_example_count_total") == 17
