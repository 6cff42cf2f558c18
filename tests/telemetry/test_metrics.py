"""The metrics page, read as Prometheus reads it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from bridge import __version__
from bridge.errors import Code
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.recorder import Recorder
from bridge.registry.registry import Registry
from bridge.serving.routes import ModelRoute, Routes, VersionState, VersionStatus
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.state import StateCollector

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

STATUSES = (
    VersionStatus(4, VersionState.LOADING),
    VersionStatus(3, VersionState.AVAILABLE),
    VersionStatus(2, VersionState.END),
    VersionStatus(1, VersionState.END),
)


def state() -> StateCollector:
    """Two instances, one of them down, and a model named to break a text format."""
    routes = Routes(77, {'a "model"\n\\': ModelRoute('a "model"\n\\', {}, {}, STATUSES)}, {})
    controllers = {
        "one": SimpleNamespace(up=True, loaded={"x", "y"}),
        "two:8001": SimpleNamespace(up=False, loaded=set()),
    }
    plane = SimpleNamespace(publisher=SimpleNamespace(routes=routes), fleet=SimpleNamespace(controllers=controllers))
    return StateCollector(
        cast(ControlPlane, plane),
        cast(Recorder, SimpleNamespace(backlog=5)),
        cast(Registry, SimpleNamespace(events_written=12)),
    )


def samples(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.page().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_state_is_read_when_asked_for() -> None:
    found = samples(Metrics(state()))
    model = 'a "model"\n\\'
    assert value(found, "bridge_build_info", version=__version__) == 1
    assert value(found, "bridge_model_versions", model=model, state="AVAILABLE") == 1
    assert value(found, "bridge_model_versions", model=model, state="END") == 2
    assert value(found, "bridge_instance_up", instance="one") == 1
    assert value(found, "bridge_instance_up", instance="two:8001") == 0
    assert value(found, "bridge_instance_copies", instance="one") == 2
    assert value(found, "bridge_routes_epoch") == 77
    assert value(found, "bridge_events_total") == 12
    assert value(found, "bridge_registry_backlog") == 5
    assert value(found, "process_resident_memory_bytes") > 0


def test_requests_are_counted_by_call_and_code() -> None:
    metrics = Metrics()
    grpc, rest = metrics.requests("grpc"), metrics.requests("rest")
    for seconds in (0.0002, 0.002, 7.0):
        grpc("Predict", Code.OK, seconds)
    grpc("Predict", Code.NOT_FOUND, 0.001)
    rest("predict", Code.OK, 0.3)
    found = samples(metrics)
    assert value(found, "bridge_requests_total", api="grpc", call="Predict", code="OK") == 3
    assert value(found, "bridge_requests_total", api="grpc", call="Predict", code="NOT_FOUND") == 1
    assert value(found, "bridge_requests_total", api="rest", call="predict", code="OK") == 1
    assert value(found, "bridge_request_seconds_count", api="grpc", call="Predict") == 4
    assert value(found, "bridge_request_seconds_bucket", api="grpc", call="Predict", le="0.0025") == 3
    assert value(found, "bridge_request_seconds_sum", api="rest", call="predict") == 0.3


def test_calls_to_triton_are_counted_by_outcome() -> None:
    metrics = Metrics()
    observe = metrics.triton_calls("one", "http")
    observe("ok", 0.001)
    observe("ok", 0.002)
    metrics.triton_calls("one", "http")("runner", 4.0)
    found = samples(metrics)
    assert value(found, "bridge_triton_calls_total", instance="one", leg="http", outcome="ok") == 2
    assert value(found, "bridge_triton_calls_total", instance="one", leg="http", outcome="runner") == 1
    assert value(found, "bridge_triton_call_seconds_count", instance="one", leg="http") == 3


def test_two_pages_in_one_process_share_nothing() -> None:
    first, second = Metrics(), Metrics()
    first.requests("grpc")("Predict", Code.OK, 0.1)
    assert not any(name == "bridge_requests_total" for name, _ in samples(second))
