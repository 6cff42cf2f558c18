"""What operators' tools see of a whole server: the Prometheus page, request logs, gRPC health and reflection."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from model_repo_sync.protos.tensorflow.tensor_pb2 import TensorProto
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog
from tests.acceptance.conftest import Start
from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

PAGE = "/monitoring/prometheus/metrics"
X = [1.0, 2.0, 5.0]


class Observed:
    """A server of half_plus_two under the names `half`, all of whose requests are logged, and `quiet`."""

    def __init__(self, directory: Path) -> None:
        self.logs = directory / "logs"
        self.base_path = savedmodels.half_plus_two(directory / "half", 1).parent
        config = model_config.write(directory / "models.config", *self.entries(rate=1))
        monitoring = directory / "monitoring.config"
        monitoring.write_text("prometheus_config { enable: true }")
        self.server = BridgeServer(
            directory / "bridge",
            f"--model_config_file={config}",
            f"--monitoring_config_file={monitoring}",
            "--enable_grpc_healthcheck_service=true",
        )

    def entries(self, rate: float, collector: str = "tfrecord") -> list[Entry]:
        """The configuration, with logging of `half`."""
        logging = (
            f'log_collector_config {{ type: "{collector}" filename_prefix: "{self.logs}/half" }} '
            f"sampling_config {{ sampling_rate: {rate} }}"
        )
        return [Entry("half", self.base_path, logging=logging), Entry("quiet", self.base_path)]

    def page(self) -> list[str]:
        answer = self.server.request("GET", PAGE)
        assert answer.status == 200
        return answer.body.decode().splitlines()

    def value(self, cell: str) -> int:
        """The number of one line of the page, 0 if it is not there."""
        return next((int(line.rpartition(" ")[2]) for line in self.page() if line.startswith(f"{cell} ")), 0)

    def records(self) -> list[PredictionLog]:
        """What TensorFlow's own reader finds in the log files."""
        return [PredictionLog.FromString(data) for file in self.logs.iterdir() for data in savedmodels.records(file)]


def floats(tensor: TensorProto) -> list[float]:
    """The official client sends tensor_content, everybody else float_val."""
    return [*tensor.float_val, *memoryview(tensor.tensor_content).cast("f")]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    observed = Observed(tmp_path_factory.mktemp("observed"))
    with observed.server:
        yield observed


@pytest.mark.parametrize(
    ("model", "status", "more"),
    [
        (
            "quiet",
            "OK",
            [
                ':tensorflow:serving:request_latency_count{model_name="quiet",API="Predict",entrypoint="GRPC"}',
                ':tensorflow:serving:runtime_latency_count{model_name="quiet",API="Predict",runtime="TF1"}',
            ],
        ),
        ("nobody", "NOT_FOUND", []),
    ],
)
def test_predict_is_counted(
    observed: Observed, client: OfficialClient, model: str, status: str, more: list[str]
) -> None:
    cells = [f':tensorflow:serving:request_count{{model_name="{model}",status="{status}"}}', *more]
    before = [observed.value(cell) for cell in cells]
    client.predict(observed.server.grpc, X, name=model)
    assert [observed.value(cell) for cell in cells] == [value + 1 for value in before]


@pytest.mark.parametrize(
    ("method", "target", "cells"),
    [
        (
            "POST",
            "/v1/models/quiet:predict",
            [
                ':tensorflow:serving:request_count{model_name="quiet",status="OK"}',
                ':tensorflow:serving:request_latency_count{model_name="quiet",API="predict",entrypoint="REST"}',
                ':tensorflow:serving:runtime_latency_count{model_name="quiet",API="Predict",runtime="TF1"}',
            ],
        ),
        (
            "POST",
            "/v1/models/quiet:predict?x=1",
            [':tensorflow:serving:request_count{model_name="",status="INVALID_ARGUMENT"}'],
        ),
    ],
)
def test_rest_is_counted(observed: Observed, method: str, target: str, cells: list[str]) -> None:
    before = [observed.value(cell) for cell in cells]
    observed.server.request(method, target, b'{"instances": [1.0]}')
    assert [observed.value(cell) for cell in cells] == [value + 1 for value in before]


def test_loads_are_counted(observed: Observed) -> None:
    path = f'model_path="{observed.base_path}/1"'
    assert observed.value(f':tensorflow:cc:saved_model:load_attempt_count{{{path},status="success"}}') == 2
    assert observed.value(f":tensorflow:cc:saved_model:load_latency{{{path}}}") > 1000


def test_the_page_is_what_prometheus_reads(observed: Observed) -> None:
    sample = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*\{([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)*\} [0-9.e+-]+$')
    lines = observed.page()
    assert all(line.startswith("# TYPE ") or sample.match(line) for line in lines)
    assert observed.server.request("GET", f"{PAGE}?x").status == 400


def test_a_reload_tells_how_a_metric_grew(observed: Observed, client: OfficialClient) -> None:
    names = ["/tensorflow/cc/saved_model/load_attempt_count", "/tensorflow/serving/request_count", "/nothing"]
    config = model_config.text(*observed.entries(rate=1), Entry("more", observed.base_path))
    answer = client.ask(observed.server.grpc, "reload", config=config, metrics=names)
    assert answer["metrics"] == {names[0]: 1, names[1]: 0, names[2]: 0}


def test_requests_are_logged_as_they_travelled(observed: Observed, client: OfficialClient) -> None:
    client.ask(observed.server.grpc, "reload", config=model_config.text(*observed.entries(rate=1)))
    cell = ':tensorflow:serving:request_log_count{model_name="half",status_code="OK"}'
    before = observed.value(cell)
    known = len(observed.records()) if observed.logs.exists() else 0
    client.predict(observed.server.grpc, X, name="half")
    observed.server.request("POST", "/v1/models/half:predict", b'{"instances": [1.0, 2.0, 5.0]}')
    body = b'{"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}]}'
    observed.server.request("POST", "/v1/models/half:regress", body)
    client.predict(observed.server.grpc, X, name="half", version=9)
    client.predict(observed.server.grpc, X, name="quiet")
    wait_for(lambda: observed.value(cell) == before + 3, 10, "three logged requests")
    predict, rest, regress = observed.records()[known:]
    for record in (predict, rest):
        log = record.predict_log
        assert floats(log.request.inputs["x"]) == X
        assert floats(log.response.outputs["y"]) == [2.5, 3.0, 4.5]
        assert log.request.model_spec.name == "half"
        assert record.log_metadata.model_spec.signature_name == "serving_default"
    assert regress.WhichOneof("log_type") == "regress_log"
    assert regress.regress_log.response.result.regressions[0].value == 2.5
    for record in (predict, rest, regress):
        metadata = record.log_metadata
        assert (metadata.model_spec.name, metadata.model_spec.version.value) == ("half", 1)
        assert (metadata.sampling_config.sampling_rate, list(metadata.saved_model_tags)) == (1.0, ["serve"])
        assert metadata.timestamp_secs > 1_700_000_000


def test_a_reload_changes_what_is_logged(observed: Observed, client: OfficialClient) -> None:
    server = observed.server
    client.ask(server.grpc, "reload", config=model_config.text(*observed.entries(rate=0)))
    cell = ':tensorflow:serving:request_log_count{model_name="half",status_code="OK"}'
    before = observed.value(cell)
    client.predict(server.grpc, X, name="half")
    refused = client.ask(server.grpc, "reload", config=model_config.text(*observed.entries(1, "mock")))
    assert (refused["code"], refused["details"]) == (
        "NOT_FOUND",
        "Cannot find LogCollector::Factory for type: mock",
    )
    client.ask(server.grpc, "reload", config=model_config.text(*observed.entries(rate=1)))
    client.predict(server.grpc, X, name="half")
    wait_for(lambda: observed.value(cell) > before, 10, "a logged request")
    assert observed.value(cell) == before + 1


@pytest.mark.parametrize(
    ("name", "status"), [("", "SERVING"), ("ModelService", "SERVING"), ("PredictionService", "SERVING")]
)
def test_health(observed: Observed, name: str, status: str) -> None:
    with grpc.insecure_channel(observed.server.grpc) as channel:
        answer = HealthStub(channel).Check(HealthCheckRequest(service=name), timeout=10)
    assert HealthCheckResponse.ServingStatus.Name(answer.status) == status


def test_health_of_an_unknown_name(observed: Observed) -> None:
    with grpc.insecure_channel(observed.server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        HealthStub(channel).Check(HealthCheckRequest(service="tensorflow.serving.ModelService"), timeout=10)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection(observed: Observed) -> None:
    with grpc.insecure_channel(observed.server.grpc) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert sorted(database.get_services()) == [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "inference.GRPCInferenceService",
            "tensorflow.serving.ModelService",
            "tensorflow.serving.PredictionService",
        ]
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("tensorflow.serving.PredictionService")
        assert sorted(service.methods_by_name) == [
            "Classify",
            "GetModelMetadata",
            "MultiInference",
            "Predict",
            "Regress",
        ]
        request = service.methods_by_name["Predict"].input_type
        assert request.fields_by_name["inputs"].message_type.fields_by_name["value"].message_type.full_name == (
            "tensorflow.TensorProto"
        )


def test_without_the_flags(start: Start, tmp_path: Path) -> None:
    savedmodels.half_plus_two(tmp_path / "numbered", 1)
    server = start()
    assert server.request("GET", PAGE).status == 404
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        HealthStub(channel).Check(HealthCheckRequest(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_watched_server_still_ends_at_once(start: Start, tmp_path: Path) -> None:
    savedmodels.half_plus_two(tmp_path / "numbered", 1)
    server = start("--enable_grpc_healthcheck_service=true", "--drain_seconds=60")
    with grpc.insecure_channel(server.grpc) as channel:
        watch = HealthStub(channel).Watch(HealthCheckRequest(), timeout=60)
        assert next(watch).status == HealthCheckResponse.SERVING
        server.signal(signal.SIGTERM)
        assert [answer.status for answer in watch] == [HealthCheckResponse.NOT_SERVING]
        assert server.wait(20) == 0
