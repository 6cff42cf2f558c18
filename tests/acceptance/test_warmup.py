"""Warmup requests of a SavedModel are replayed in a real runner before its version is available."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bridge.errors import Code
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog
from tests.acceptance.conftest import Start
from tests.support import warmups
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for
from tests.support.warmups import multi_inference, on_examples, predict

pytestmark = pytest.mark.integration

X = [1.0, 2.0, 5.0]
ALL_KINDS = [
    predict(),
    on_examples("classify_log", "classify_x_to_y"),
    on_examples("regress_log", "regress_x_to_y"),
    multi_inference(("regress_x_to_y", "regress"), ("classify_x_to_y", "classify")),
]
FINISHED = "Number of warmup records read"


def test_every_request_runs_before_the_version_is_available(
    start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    path = warmups.write(export(tmp_path / "numbered", 1), ALL_KINDS * 10)
    server = start("--num_request_iterations_for_warmup=2")
    [line] = server.wait_for_log(FINISHED)
    assert f"for model at {path}. {FINISHED}: 40." in line
    assert client.predict(server.grpc, X, name="numbered")["outputs"]["y"]["values"] == [1.5, 2.0, 3.5]


REFUSED: dict[str, tuple[Sequence[PredictionLog], bytes, Code, str]] = {
    "record": ([], b"These are no records, only words", Code.DATA_LOSS, "verify your warmup data is in TFRecord"),
    "request": ([predict(alias="z")], b"", Code.INVALID_ARGUMENT, "Signature input alias: x(feed name: x:0) not found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_version_whose_warmup_fails_ends_in_its_error(
    start: Start, tmp_path: Path, client: OfficialClient, case: str
) -> None:
    export(tmp_path / "numbered", 1)
    server = start("--max_num_load_retries=1", "--load_retry_interval_micros=1000")
    with client.loop(server.grpc, name="numbered") as loop:
        logs, raw, code, sentence = REFUSED[case]
        broken = export(tmp_path, 2)
        warmups.write(broken, logs, raw)
        broken.rename(tmp_path / "numbered" / "2")
        server.wait_for_states("numbered", {2: "END", 1: "AVAILABLE"})
        loop.wait_for_answers(5)
    assert loop.clean
    [newest, _] = client.ask(server.grpc, "status", spec={"name": "numbered"})["rows"]
    assert newest[:3] == [2, 50, code]
    assert sentence in newest[3]
    wait_for(lambda: len(server.stubs) == 1, 20, "the runner of the refused version ended")


def test_nothing_is_replayed_where_that_is_switched_off(start: Start, tmp_path: Path) -> None:
    warmups.write(export(tmp_path / "numbered", 1), [predict(alias="z")])
    server = start("--enable_model_warmup=false")
    assert server.states("numbered") == {1: "AVAILABLE"}
    assert not server.log_lines("warmup data")
