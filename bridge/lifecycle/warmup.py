"""Replays the requests that a SavedModel brings along, before its version is available."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

from google.protobuf.message import DecodeError

from bridge.codec.examples import decode_examples_request, decode_multi_inference_request
from bridge.codec.predict import decode_predict_request
from bridge.errors import BridgeError, Code, InvalidArgument, Unimplemented
from bridge.lifecycle.servable import Servable
from bridge.serving.inference import Inference
from bridge.serving.single_copy import Send, SingleCopy
from model_repo_sync.protos.tensorflow_serving.prediction_log_pb2 import PredictionLog
from model_repo_sync.tfrecord import TFRecordError, read_records

logger = logging.getLogger(__name__)

REQUESTS = os.path.join("assets.extra", "tf_serving_warmup_requests")
MOST_RECORDS = 1000

OnWarmup = Callable[[str, str, int, float], None]
"""Told path of the SavedModel, status, records and seconds of each warmup in which no request failed."""

_Answer = Callable[[PredictionLog], Awaitable[None]]


class Warmup:
    """Replays each request `iterations` times, one after the other. Files are read on `executor`."""

    def __init__(self, executor: Executor, on_warmup: OnWarmup, *, iterations: int, check_method_names: bool) -> None:
        self._executor = executor
        self._on_warmup = on_warmup
        self._iterations = iterations
        self._check_method_names = check_method_names

    async def replay(self, servable: Servable, send: Send, longest: float) -> None:
        """Have the requests that lie in `servable` answered by `send`, each within `longest` seconds.

        Raises BridgeError: TF Serving's sentence for records that cannot be used, or what a request failed with, a
        CallError of `send` too.
        """
        path = os.path.join(servable.saved_model.path, REQUESTS)
        if not await self._in_thread(os.path.exists, path):
            logger.info("No warmup data file found at %s", path)
            return
        options = f"num_request_iterations {{ value: {self._iterations} }}"
        logger.info("Starting to read warmup data for model at %s with model-warmup-options %s", path, options)
        copy = SingleCopy(servable.route(()), send, longest=longest, check_method_names=self._check_method_names)
        started = time.monotonic()
        count, damage = await self._replay(path, _answerer(Inference(copy)))
        seconds = time.monotonic() - started
        self._on_warmup(servable.saved_model.path, f"DATA_LOSS: {damage}" if damage else "OK", count, seconds)
        if damage:
            raise BridgeError(f"{damage}. Please verify your warmup data is in TFRecord format.", Code.DATA_LOSS)
        logger.info(
            "Finished reading warmup data for model at %s. Number of warmup records read: %d. "
            "Elapsed time (microseconds): %d.",
            path,
            count,
            seconds * 1e6,
        )

    async def _replay(self, path: str, answer: _Answer) -> tuple[int, TFRecordError | None]:
        """How many records were replayed, and the damage at which that ended before the end of the file."""
        count = 0
        try:
            with await self._in_thread(open, path, "rb") as file:
                records = read_records(file)
                while (record := await self._in_thread(next, records, None)) is not None:
                    log = _parsed(record, path)
                    for _ in range(self._iterations):
                        await answer(log)
                    count += 1
                    if count > MOST_RECORDS:
                        raise InvalidArgument(
                            f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}"
                        )
        except TFRecordError as damage:
            return count, damage
        except OSError as error:
            code = Code.PERMISSION_DENIED if isinstance(error, PermissionError) else Code.FAILED_PRECONDITION
            raise BridgeError(f"{path}; {error.strerror}", code) from error
        return count, None

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)


def _parsed(record: bytes, path: str) -> PredictionLog:
    try:
        return PredictionLog.FromString(record)
    except DecodeError as error:
        text = record.decode("utf-8", "replace")
        raise InvalidArgument(f"Failed to parse warmup record: {text} from {path}") from error


def _answerer(inference: Inference) -> _Answer:
    """Answers a record as the RPC that it is of; one without a request needs no answer."""
    rpcs: dict[str, Callable[[bytes], Awaitable[object]]] = {
        "predict_log": lambda data: inference.predict(decode_predict_request(data), None),
        "classify_log": lambda data: inference.classify(decode_examples_request(data), None),
        "regress_log": lambda data: inference.regress(decode_examples_request(data), None),
        "multi_inference_log": lambda data: inference.multi_inference(decode_multi_inference_request(data), None),
    }

    async def answer(log: PredictionLog) -> None:
        kind = log.WhichOneof("log_type")
        if kind is None:
            return
        if kind not in rpcs:
            number = PredictionLog.DESCRIPTOR.fields_by_name[kind].number
            raise Unimplemented(f"Unsupported log_type for warmup: {number}")
        await rpcs[kind](getattr(log, kind).request.SerializeToString())

    return answer
