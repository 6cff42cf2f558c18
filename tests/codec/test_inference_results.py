from __future__ import annotations

import math
import struct

from hypothesis import given
from hypothesis import strategies as st

from bridge.codec.inference_results import (
    Classifications,
    Regressions,
    TaskResult,
    encode_multi_inference_response,
    encode_response,
)
from model_repo_sync.protos.tensorflow_serving.classification_pb2 import ClassificationResponse
from model_repo_sync.protos.tensorflow_serving.inference_pb2 import MultiInferenceResponse
from model_repo_sync.protos.tensorflow_serving.regression_pb2 import RegressionResponse

floats = st.floats(width=32)
labels = st.text().map(str.encode)
classifications = st.builds(Classifications, st.lists(st.lists(st.tuples(labels, floats))))
regressions = st.builds(Regressions, st.lists(floats))


def bits(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


@given(classifications, st.text(), st.integers(0, 2**63 - 1))
def test_classifications(result: Classifications, name: str, version: int) -> None:
    data = encode_response(name, version, TaskResult("s", result))
    response = ClassificationResponse.FromString(data)
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == (name, version, "s")
    assert spec.HasField("version")
    rows = [[(item.label.encode(), item.score) for item in row.classes] for row in response.result.classifications]
    assert [[label for label, _ in row] for row in rows] == [[label for label, _ in row] for row in result.rows]
    for row, expected in zip(rows, result.rows, strict=True):
        assert bits([score for _, score in row]) == bits([score for _, score in expected])


@given(regressions)
def test_regressions(result: Regressions) -> None:
    response = RegressionResponse.FromString(encode_response("m", 1, TaskResult("s", result)))
    assert bits([item.value for item in response.result.regressions]) == bits(list(result.values))
    assert len(response.result.regressions) == len(result.values)


def test_zero_and_negative_zero() -> None:
    data = encode_response("m", 1, TaskResult("s", Regressions([0.0, -0.0])))
    values = [item.value for item in RegressionResponse.FromString(data).result.regressions]
    assert [math.copysign(1, value) for value in values] == [1, -1]
    assert len(data) == len(RegressionResponse.FromString(data).SerializeToString())


def test_labels_that_are_no_text_go_out_as_they_are() -> None:
    data = encode_response("m", 1, TaskResult("s", Classifications([[(b"\xff\xfe", 1.0)]])))
    assert b"\x0a\x02\xff\xfe" in data


def test_multi_inference() -> None:
    answers = [
        TaskResult("a", Regressions([1.0, 2.0])),
        TaskResult("b", Classifications([[(b"x", 0.5)], []])),
    ]
    response = MultiInferenceResponse.FromString(encode_multi_inference_response("m", 7, answers))
    first, second = response.results
    assert [result.model_spec.signature_name for result in response.results] == ["a", "b"]
    assert {result.model_spec.version.value for result in response.results} == {7}
    assert [item.value for item in first.regression_result.regressions] == [1.0, 2.0]
    assert [len(row.classes) for row in second.classification_result.classifications] == [1, 0]
