from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bridge.modelmesh.histogram import CELL_LIMIT, Histogram, java_number
from bridge.modelmesh.mesh_metrics import AGES, MODEL_SIZES, MeshMetrics

NUMBERS = [
    (0.5, "0.5"),
    (1, "1.0"),
    (2_097_152, "2097152.0"),
    (9_999_999, "9999999.0"),
    (1e7, "1.0E7"),
    (16_777_216, "1.6777216E7"),
    (604_800_000, "6.048E8"),
    (7_776_000_000, "7.776E9"),
]


@pytest.mark.parametrize(("value", "text"), NUMBERS)
def test_numbers_as_java_writes_them(value: float, text: str) -> None:
    assert java_number(value) == text


def samples(histogram: Histogram) -> dict[str, float]:
    [metric] = histogram.collect()
    return {
        f"{sample.name}{sample.labels.get('le', '')}{sample.labels.get('method', '')}": sample.value
        for sample in metric.samples
    }


def test_a_value_on_a_bound_is_inside() -> None:
    histogram = Histogram("h", "help", (), (1, 2))
    for value in (0.5, 1, 1.5, 2, 7):
        histogram.observe(value)
    assert samples(histogram) == {
        "h_bucket1.0": 2,
        "h_bucket2.0": 4,
        "h_bucket+Inf": 5,
        "h_count": 5,
        "h_sum": 12,
    }


def test_labels_do_not_grow_without_end() -> None:
    histogram = Histogram("h", "help", ("method",), (1,))
    for number in range(CELL_LIMIT + 5):
        histogram.observe(1, (str(number),))
    [metric] = histogram.collect()
    assert len([sample for sample in metric.samples if sample.name == "h_count"]) == CELL_LIMIT


def test_bounds() -> None:
    assert len(MODEL_SIZES) == 8
    assert [java_number(size) for size in MODEL_SIZES[:2]] == ["262144.0", "1048576.0"]
    assert [java_number(age) for age in AGES[:4]] == ["30000.0", "300000.0", "900000.0", "3600000.0"]


def test_failures_have_plain_names() -> None:
    registry = CollectorRegistry()
    registry.register(MeshMetrics(info=("a:info", {"slot": "x"})))
    page = generate_latest(registry).decode()
    assert "\nmodelmesh_loadmodel_failure 0.0\n" in page
    assert '\na:info{slot="x"} 1.0\n' in page
    assert "\nmodelmesh_loadmodel_milliseconds_count 0.0\n" in page
