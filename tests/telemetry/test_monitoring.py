from __future__ import annotations

import logging

import pytest

from bridge.telemetry import monitoring
from bridge.telemetry.monitoring import Counter, Histogram, Monitoring, TextGauge, exponential, exported_name, number


def page(*metrics: monitoring.AnyMetric) -> list[str]:
    return Monitoring(metrics).page().decode().splitlines()


def test_counter() -> None:
    counter = Counter("/test/path/total", ["name"])
    counter.add("abc")
    counter.add("abc")
    assert Monitoring([counter]).page() == b'# TYPE :test:path:total counter\n:test:path:total{name="abc"} 2\n'


def test_histogram() -> None:
    histogram = Histogram("/test/path/latency", ["status"], exponential(1, 2, 10))
    for value in (2, 20, 200):
        histogram.observe(value, "good")
    buckets = zip(
        ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "+Inf"],
        [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
        strict=True,
    )
    assert page(histogram) == [
        "# TYPE :test:path:latency histogram",
        *(f':test:path:latency_bucket{{status="good",le="{bound}"}} {count}' for bound, count in buckets),
        ':test:path:latency_sum{status="good"} 222',
        ':test:path:latency_count{status="good"} 3',
    ]


def test_cells_without_labels() -> None:
    histogram, counter = Histogram("h", [], [1.5]), Counter("c")
    histogram.observe(1.5)
    counter.add(by=3)
    assert page(histogram, counter) == [
        "# TYPE c counter",
        "c{} 3",
        "# TYPE h histogram",
        'h_bucket{le="1.5"} 0',
        'h_bucket{le="+Inf"} 1',
        "h_sum{} 1.5",
        "h_count{} 1",
    ]


@pytest.mark.parametrize(
    ("name", "label", "value", "line"),
    [
        ("/test", "name", '"abc\\"', ':test{name="\\"abc\\\\\\""} 1'),
        ("/test", "my-name+1", "a", ':test{my_name_1="a"} 1'),
        ("/test", "1st", "a", ':test{_1st="a"} 1'),
        ("0/path-total_count", "name", "a", '_0:path:total_count{name="a"} 1'),
        ("/test", "name", "a\nb", ':test{name="a\nb"} 1'),
    ],
)
def test_names_and_escapes(name: str, label: str, value: str, line: str) -> None:
    counter = Counter(name, [label])
    counter.add(value)
    assert Monitoring([counter]).page().decode().split("\n", 1)[1] == line + "\n"


def test_bytes_that_are_no_utf8_come_out_as_they_came() -> None:
    counter = Counter("c", ["model"])
    counter.add(b"\xff\xc3\xbc".decode("utf-8", "surrogateescape"))
    assert b'c{model="\xff\xc3\xbc"} 1\n' in Monitoring([counter]).page()


def test_order_is_that_of_the_bytes() -> None:
    counter, empty = Counter("/b", ["model", "status"]), Counter("/a")
    for model, status in [("b", "OK"), ("a", "OK"), ("a", "NOT_FOUND"), ("", "OK"), ("Z", "OK")]:
        counter.add(model, status)
    assert page(counter, empty) == [
        "# TYPE :a counter",
        "# TYPE :b counter",
        ':b{model="",status="OK"} 1',
        ':b{model="Z",status="OK"} 1',
        ':b{model="a",status="NOT_FOUND"} 1',
        ':b{model="a",status="OK"} 1',
        ':b{model="b",status="OK"} 1',
    ]


def test_texts_show_as_zero() -> None:
    gauge = TextGauge("/map", ["model"])
    gauge.set("something", "m")
    assert page(gauge) == ["# TYPE :map gauge", ':map{model="m"} 0']


def test_first_value() -> None:
    counter, histogram = Counter("/c", ["model"]), Histogram("/h", [], [1.0])
    served = Monitoring([counter, histogram])
    assert served.first_value("/c") == 0
    counter.add("b", by=7)
    counter.add("a", by=3)
    histogram.observe(4)
    assert [served.first_value(name) for name in ("/c", "/h", "/unknown")] == [3, 0, 0]


def test_made_up_labels_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(monitoring, "CELL_LIMIT", 2)
    counter = Counter("/c", ["model"])
    with caplog.at_level(logging.WARNING):
        for model in "abcda":
            counter.add(model)
    assert page(counter)[1:] == [':c{model="a"} 2', ':c{model="b"} 1']
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10.0, "10"),
        (104.976, "104.976"),
        (188.9568, "188.957"),
        (1274816.0, "1.27482e+06"),
        (0.5, "0.5"),
        (1e20, "1e+20"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_exported_name() -> None:
    assert exported_name("/tensorflow/serving/request_count") == ":tensorflow:serving:request_count"
