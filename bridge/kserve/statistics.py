"""What several Tritons counted for the copies of one model, as one model's statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from bridge.serving.routes import Destination, ServableRoute


def summed(destination: Destination, answers: Sequence[bytes]) -> list[Any]:
    """The ModelStatistics in the serialized responses `answers`, added up by version, under the name of clients."""
    by_version: dict[str, Any] = {}
    for answer in answers:
        for item in service_pb2.ModelStatisticsResponse.FromString(answer).model_stats:
            version = str(destination.version) if isinstance(destination, ServableRoute) else item.version
            total = by_version.setdefault(version, service_pb2.ModelStatistics(name=destination.model, version=version))
            _add(total, item)
    return list(by_version.values())


def _add(total: Any, item: Any) -> None:
    total.last_inference = max(total.last_inference, item.last_inference)
    total.inference_count += item.inference_count
    total.execution_count += item.execution_count
    _add_durations(total.inference_stats, item.inference_stats)
    for batch in item.batch_stats:
        _add_durations(_of_size(total.batch_stats, batch.batch_size), batch)


def _of_size(batches: Any, size: int) -> Any:
    found = next((batch for batch in batches if batch.batch_size == size), None)
    return batches.add(batch_size=size) if found is None else found


def _add_durations(total: Any, item: Any) -> None:
    for name in _durations(item):
        theirs, ours = getattr(item, name), getattr(total, name)
        ours.count += theirs.count
        ours.ns += theirs.ns


def _durations(item: Any) -> Iterable[str]:
    return [field.name for field in item.DESCRIPTOR.fields if field.message_type is not None]
