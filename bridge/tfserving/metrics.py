"""TF Serving's metrics: names, labels and buckets that dashboards know, recorded where TF Serving records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import Code
from bridge.serving.observer import Answered, Entrypoint, Exchange
from bridge.telemetry.monitoring import Counter, Histogram, Monitoring, TextGauge, exponential

SERVING = "/tensorflow/serving"
BATCHING = f"{SERVING}/batching_session"
LOADING = "/tensorflow/cc/saved_model"

LATENCY = exponential(10, 1.8, 33)
"""Microseconds, up to some 25 minutes."""

COUNTED_RPCS = frozenset({"Predict", "Classify", "Regress"})
"""The RPCs that TF Serving counts; of the REST API it counts every request."""

RUNTIME = "TF1"

_NAMES = {code: code.name for code in Code}
"""Faster than the attribute, which is found by a call."""


class ServingMetrics:
    """An observer of the request path, of loads and of warmups.

    Metrics of TF Serving that have no source here show their type without values, as those of an idle stock server.
    """

    def __init__(self) -> None:
        model, path = ("model_name",), ("model_path", "status")
        self._requests = Counter(f"{SERVING}/request_count", (*model, "status"))
        self._request_latency = Histogram(f"{SERVING}/request_latency", (*model, "API", "entrypoint"), LATENCY)
        self._runtime_latency = Histogram(f"{SERVING}/runtime_latency", (*model, "API", "runtime"), LATENCY)
        self._example_counts = Histogram(f"{SERVING}/request_example_counts", ("model",), exponential(1, 2, 15))
        self._example_total = Counter(f"{SERVING}/request_example_count_total", ("model",))
        self._logged = Counter(f"{SERVING}/request_log_count", (*model, "status_code"))
        self._warmup_latency = Histogram(f"{SERVING}/model_warmup_latency", path, LATENCY)
        self._warmup_records = Counter(f"{SERVING}/model_warmup_records_read", path)
        self._load_attempts = Counter(f"{LOADING}/load_attempt_count", path)
        self._load_latency = Counter(f"{LOADING}/load_latency", ("model_path",))
        self._batches = Counter(f"{BATCHING}/wrapped_run_count")
        self._batch_size = Histogram(f"{BATCHING}/processed_batch_size", (), exponential(1, 2, 14))
        self._monitoring = Monitoring(
            [
                self._requests,
                self._request_latency,
                self._runtime_latency,
                self._example_counts,
                self._example_total,
                self._logged,
                self._warmup_latency,
                self._warmup_records,
                self._load_attempts,
                self._load_latency,
                TextGauge(f"{SERVING}/mlmd_map", (*model, "version")),
                Histogram(f"{BATCHING}/queuing_latency", ("thread_pool_name",), exponential(100, 1.2, 52)),
                self._batches,
                self._batch_size,
                Histogram(f"{BATCHING}/padding_size", ("execution_batch_size",), exponential(1, 2, 14)),
                Histogram(f"{BATCHING}/input_batch_size", (), exponential(1, 2, 14)),
            ]
        )

    def page(self) -> bytes:
        """The Prometheus page."""
        return self._monitoring.page()

    def first_value(self, name: str) -> int:
        """The integer of the first cell of the metric with that slash name, 0 where there is none."""
        return self._monitoring.first_value(name)

    def take(self) -> dict[str, Any]:
        """What was counted, as JSON; it is not counted here any more."""
        return self._monitoring.take()

    def merge(self, taken: Mapping[str, Any]) -> None:
        """Count what was taken in another process."""
        self._monitoring.merge(taken)

    def answered(self, request: Answered) -> None:
        if request.entrypoint is Entrypoint.GRPC and request.api not in COUNTED_RPCS:
            return
        self._requests.add(request.model, _NAMES[request.code])
        if request.code is Code.OK:
            self._request_latency.observe(_micros(request.seconds), request.model, request.api, request.entrypoint)

    def ran(self, api: str, model: str, seconds: float) -> None:
        if api in COUNTED_RPCS:
            self._runtime_latency.observe(_micros(seconds), model, api, RUNTIME)

    def examples(self, model: str, count: int) -> None:
        self._example_counts.observe(count, model)
        self._example_total.add(model, by=count)

    def exchanged(self, exchange: Exchange) -> None:
        """Of no interest here."""

    def logged(self, model: str, code: Code) -> None:
        """A sampled request was written to the request log, or could not be."""
        self._logged.add(model, code.name)

    def loaded(self, path: str, succeeded: bool, seconds: float) -> None:
        """A load of the SavedModel at `path` succeeded, or failed for the model's reasons."""
        self._load_attempts.add(path, "success" if succeeded else "fail")
        self._load_latency.add(path, by=_micros(seconds))

    def batched(self, rows: int, times: int) -> None:
        """Batches of `rows`, padding included, ran."""
        self._batches.add(by=times)
        self._batch_size.observe(rows, times=times)

    def warmed(self, path: str, status: str, records: int, seconds: float) -> None:
        """The warmup of the SavedModel at `path` read `records` records; `status` is its whole status as a text."""
        self._warmup_latency.observe(_micros(seconds), path, status)
        self._warmup_records.add(path, status, by=records)


def _micros(seconds: float) -> int:
    return int(seconds * 1e6)
