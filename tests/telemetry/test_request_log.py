from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.errors import Code
from bridge.serving.control import RoutesView
from bridge.serving.observer import Exchange
from bridge.serving.routes import LoggingRoute, Routes
from bridge.serving.routes_json import dumps, loads
from bridge.telemetry.record_files import RecordFiles
from bridge.telemetry.request_log import RequestLog
from model_repo_sync.protos.tensorflow_serving.logging_config_pb2 import SamplingConfig
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog
from model_repo_sync.tfrecord import read_records
from tests.serving import snapshots

REQUEST, RESPONSE = b"\xa2\x06\x04asks", b"\xa2\x06\x07answers"
"""Messages of any type, with a field that none of ours knows."""


def routes(prefix: Path, rate: float) -> Routes:
    """A snapshot that has travelled, with a model that is logged and one that is not."""
    sampling = SamplingConfig(sampling_rate=rate)
    logged = replace(
        snapshots.model("half", [snapshots.servable(version=123)]),
        logging=LoggingRoute(str(prefix), rate, sampling.SerializeToString()),
    )
    return loads(dumps(snapshots.routes(logged, snapshots.model("other", [snapshots.servable("other", 1)]))))


def exchange(api: str = "Predict", model: str = "half") -> Exchange:
    return Exchange(api, model, 123, "serving_default", lambda: (REQUEST, RESPONSE))


class Logged:
    """A request log with what it told: `chance` is the next random number."""

    def __init__(self, files: RecordFiles, routes: Routes) -> None:
        self.chance = 0.0
        self.told: list[tuple[str, Code]] = []
        self._changed = asyncio.Event()
        view = RoutesView()
        view.publish(routes)
        self.log = RequestLog(view, files, ["serve"], self._tell, lambda: self.chance)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.told) < count:
                self._changed.clear()
                await self._changed.wait()

    def _tell(self, model: str, code: Code) -> None:
        self.told.append((model, code))
        self._changed.set()


@pytest.fixture
def files() -> Iterator[RecordFiles]:
    with closing(RecordFiles(file_bytes=1 << 20)) as files:
        yield files


def read(directory: Path) -> list[PredictionLog]:
    [path] = directory.iterdir()
    with path.open("rb") as file:
        return [PredictionLog.FromString(record) for record in read_records(file)]


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("Predict", "predict_log"),
        ("Classify", "classify_log"),
        ("Regress", "regress_log"),
        ("MultiInference", "multi_inference_log"),
    ],
)
async def test_a_record_says_what_was_asked_of_whom(tmp_path: Path, files: RecordFiles, api: str, kind: str) -> None:
    logged = Logged(files, routes(tmp_path / "half", 1.0))
    before = int(time.time())
    logged.log.exchanged(exchange(api))
    await logged.until(1)
    assert logged.told == [("half", Code.OK)]
    [record] = read(tmp_path)
    assert record.WhichOneof("log_type") == kind
    log = getattr(record, kind)
    assert (log.request.SerializeToString(), log.response.SerializeToString()) == (REQUEST, RESPONSE)
    metadata = record.log_metadata
    assert metadata.model_spec.name == "half"
    assert metadata.model_spec.version.value == 123
    assert metadata.model_spec.signature_name == "serving_default"
    assert metadata.sampling_config.sampling_rate == 1.0
    assert list(metadata.saved_model_tags) == ["serve"]
    assert before <= metadata.timestamp_secs <= time.time()


async def test_sampling(tmp_path: Path, files: RecordFiles) -> None:
    logged = Logged(files, routes(tmp_path / "half", 0.5))
    for logged.chance in (0.0, 0.49, 0.5, 0.99):
        logged.log.exchanged(exchange())
    logged.chance = 0.0
    for model in ("other", "unknown"):
        logged.log.exchanged(exchange(model=model))
    await logged.until(2)
    assert len(read(tmp_path)) == 2


async def test_messages_are_made_for_the_log_alone(tmp_path: Path, files: RecordFiles) -> None:
    logged = Logged(files, routes(tmp_path / "half", 0.5))
    logged.chance = 0.5

    def never() -> tuple[bytes, bytes]:
        raise AssertionError

    logged.log.exchanged(exchange()._replace(messages=never))
    assert logged.told == []


async def test_a_fault_of_the_log_is_none_of_the_request(
    tmp_path: Path, files: RecordFiles, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = Logged(files, routes(tmp_path / "half", 1.0))
    with caplog.at_level(logging.CRITICAL):
        logged.log.exchanged(exchange()._replace(messages=lambda: (b"", None)))  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(files, "append", lambda record: False)
    logged.log.exchanged(exchange())
    assert logged.told == [("half", Code.INTERNAL), ("half", Code.RESOURCE_EXHAUSTED)]
