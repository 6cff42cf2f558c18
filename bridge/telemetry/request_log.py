"""The request log: a sample of each model's requests and responses as tensorflow.serving.PredictionLog records."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence

from bridge.codec import wire
from bridge.codec.wire import LEN
from bridge.errors import Code
from bridge.serving.control import RoutesView
from bridge.serving.observer import Answered, Exchange
from bridge.serving.routes import LoggingRoute
from bridge.telemetry.record_files import Record, RecordFiles
from model_repo_sync.protos.tensorflow_serving.logging_pb2 import LogMetadata
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog

logger = logging.getLogger(__name__)

OnLogged = Callable[[str, Code], None]
"""Told the model and what became of each sampled request: OK, UNAVAILABLE, or RESOURCE_EXHAUSTED if it was dropped."""

_METADATA = PredictionLog.LOG_METADATA_FIELD_NUMBER
_LOGS = {
    "Predict": PredictionLog.PREDICT_LOG_FIELD_NUMBER,
    "Classify": PredictionLog.CLASSIFY_LOG_FIELD_NUMBER,
    "Regress": PredictionLog.REGRESS_LOG_FIELD_NUMBER,
    "MultiInference": PredictionLog.MULTI_INFERENCE_LOG_FIELD_NUMBER,
}
_REQUEST, _RESPONSE = 1 << 3 | LEN, 2 << 3 | LEN


class RequestLog:
    """An observer that logs the successful inference requests which the models' logging_config asks for.

    It never delays or fails a request. `tags` are those of the MetaGraphs that serve. Used on one event loop.
    """

    def __init__(
        self,
        view: RoutesView,
        files: RecordFiles,
        tags: Sequence[str],
        on_logged: OnLogged,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._view = view
        self._files = files
        self._tags = tags
        self._on_logged = on_logged
        self._chance = chance
        self._loop = asyncio.get_running_loop()

    def answered(self, request: Answered) -> None:
        """Of no interest here."""

    def ran(self, api: str, model: str, seconds: float) -> None:
        """Of no interest here."""

    def examples(self, model: str, count: int) -> None:
        """Of no interest here."""

    def exchanged(self, exchange: Exchange) -> None:
        model = self._view.routes.models.get(exchange.model)
        if model is None or model.logging is None or self._chance() >= model.logging.sampling_rate:
            return
        try:
            self._log(exchange, model.logging)
        except Exception:
            logger.exception("A %s request to %s could not be logged", exchange.api, exchange.model)
            self._on_logged(exchange.model, Code.INTERNAL)

    def _log(self, exchange: Exchange, logging: LoggingRoute) -> None:
        parts = prediction_log(exchange, self._metadata(exchange, logging))

        def written(code: Code) -> None:
            """Tell on the event loop, unless it has ended while the last records were written."""
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_logged, exchange.model, code)

        if not self._files.append(Record(logging.filename_prefix, parts, written)):
            self._on_logged(exchange.model, Code.RESOURCE_EXHAUSTED)

    def _metadata(self, exchange: Exchange, logging: LoggingRoute) -> bytes:
        metadata = LogMetadata(saved_model_tags=self._tags, timestamp_secs=int(time.time()))
        metadata.model_spec.name = exchange.model
        metadata.model_spec.version.value = exchange.version
        metadata.model_spec.signature_name = exchange.signature
        metadata.sampling_config.ParseFromString(logging.sampling_config)
        return metadata.SerializeToString()


def prediction_log(exchange: Exchange, metadata: bytes) -> Sequence[bytes]:
    """A serialized PredictionLog in parts; request and response stay the bytes that travelled."""
    request, response = exchange.messages()
    heads = [
        wire.encode_varint(tag) + wire.encode_varint(len(message))
        for tag, message in ((_REQUEST, request), (_RESPONSE, response))
    ]
    size = sum(map(len, (*heads, request, response)))
    log = wire.encode_varint(_LOGS[exchange.api] << 3 | LEN) + wire.encode_varint(size)
    return wire.length_delimited(_METADATA << 3 | LEN, metadata), log, heads[0], request, heads[1], response
