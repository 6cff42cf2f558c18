"""Batching of a whole server: concurrent clients over gRPC, runs counted on TF Serving's Prometheus page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from bridge.errors import Code
from model_repo_sync.protos.tensorflow.tensor_pb2 import TensorProto
from model_repo_sync.protos.tensorflow_serving.predict_pb2 import PredictRequest, PredictResponse
from tests.acceptance.conftest import Start
from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export

pytestmark = pytest.mark.integration

PREDICT = "/tensorflow.serving.PredictionService/Predict"
RUNS = ":tensorflow:serving:batching_session:wrapped_run_count{}"
PATIENT = "max_batch_size { value: 16 } batch_timeout_micros { value: 200000 } max_enqueued_batches { value: 100 }"


def parameters(directory: Path, text: str = PATIENT) -> list[str]:
    """The flags of a server that batches by `text` and counts what it does."""
    file, monitoring = directory / "batching.config", directory / "monitoring.config"
    file.write_text(text)
    monitoring.write_text("prometheus_config { enable: true }")
    return ["--enable_batching", f"--batching_parameters_file={file}", f"--monitoring_config_file={monitoring}"]


def runs(server: BridgeServer) -> int:
    page = server.request("GET", "/monitoring/prometheus/metrics").body.decode()
    return next((int(line.split()[-1]) for line in page.splitlines() if line.startswith(RUNS)), 0)


def together(server: BridgeServer, model: str, rows: list[float]) -> list[Any]:
    """What clients get who send one row each at once: the value of `y`, or the status of the refusal."""
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary(PREDICT, PredictRequest.SerializeToString, PredictResponse.FromString)
        futures = []
        for row in rows:
            request = PredictRequest()
            request.model_spec.name = model
            request.inputs["x"].CopyFrom(TensorProto(dtype=1, float_val=[row]))
            request.inputs["x"].tensor_shape.dim.add(size=1)
            futures.append(call.future(request, timeout=30))
        return [_outcome(future) for future in futures]


def _outcome(future: Any) -> Any:
    if future.exception() is not None:
        return Code[future.code().name]
    [value] = future.result().outputs["y"].float_val
    return value


def test_64_clients_share_at_most_8_runs(start: Start, tmp_path: Path) -> None:
    export(tmp_path / "numbered", 1)
    server = start(*parameters(tmp_path))
    before = runs(server)
    assert together(server, "numbered", [float(row) for row in range(64)]) == [row / 2 + 1 for row in range(64)]
    assert 0 < runs(server) - before <= 8


def test_a_bad_row_fails_alone(start: Start, tmp_path: Path) -> None:
    savedmodels.make("failures", tmp_path / "failures" / "1")
    server = start("--model_name=failures", f"--model_base_path={tmp_path}/failures", *parameters(tmp_path))
    rows = [99.0 if row == 20 else 1.0 for row in range(64)]
    expected = [Code.INVALID_ARGUMENT if row == 99 else row for row in rows]
    assert together(server, "failures", rows) == expected


def test_a_model_brings_its_own_parameters(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    """One with its own file, one without, and one whose file is broken."""
    for name in ("own", "none", "broken"):
        export(tmp_path / name, 1)
    (tmp_path / "own" / "1" / "batching_params.pbtxt").write_text(PATIENT)
    (tmp_path / "broken" / "1" / "batching_params.pbtxt").write_text("max_batch_size: oops")
    entries = [Entry(name, tmp_path / name) for name in ("own", "none", "broken")]
    config = model_config.write(tmp_path / "models.config", *entries)
    server = start(
        f"--model_config_file={config}",
        "--enable_per_model_batching_parameters",
        "--max_num_load_retries=0",
        *parameters(tmp_path, "max_batch_size { value: 1 }"),
    )
    [row] = client.ask(server.grpc, "status", spec={"name": "broken"})["rows"]
    file = tmp_path / "broken" / "1" / "batching_params.pbtxt"
    assert row == [1, 50, Code.INVALID_ARGUMENT, f"Invalid protobuf file: '{file}'"]
    together(server, "own", [1.0] * 64)
    batched = runs(server)
    assert 0 < batched <= 8
    together(server, "none", [1.0] * 64)
    assert runs(server) == batched


def test_wrong_allowed_sizes_fail_each_load(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    server = start("--max_num_load_retries=0", *parameters(tmp_path, "allowed_batch_sizes: 8"))
    sentence = "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 8; expected 1000"
    assert client.ask(server.grpc, "status", spec={"name": "numbered"})["rows"] == [
        [1, 50, Code.INVALID_ARGUMENT, sentence]
    ]
