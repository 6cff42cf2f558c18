from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import rapidjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec.rest_response import error_json, metadata_json, predict_json, status_json
from bridge.codec.string_tensor import frame
from bridge.codec.tensor import Tensor
from bridge.errors import Code, InvalidArgument
from bridge.serving.routes import VersionState, VersionStatus
from model_repo_sync.protos.tensorflow_serving import get_model_metadata_pb2
from model_repo_sync.runner.tensorflow_engine.dtypes import BY_NAME, DTYPES


def tensor(dtype: str, values: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    kind = BY_NAME[dtype]
    array = np.array(values, kind.numpy)
    data = frame(array.ravel().tolist()) if kind.is_string else array.tobytes()
    return Tensor(kind.number, array.shape if shape is None else shape, data)


INTS = tensor("int32", [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]])
NESTED = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]]
STRINGS = tensor("string", [[b"hello", b"world"], [b"tf", b"serving"]])
ENCODED = [[{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}], [{"b64": "dGY="}, {"b64": "c2VydmluZw=="}]]


@pytest.mark.parametrize(
    ("outputs", "predictions", "columns"),
    [
        ([("y", INTS)], NESTED, NESTED),
        ([("y", tensor("int32", [1, 2, 3]))], [1, 2, 3], [1, 2, 3]),
        ([("y_bytes", STRINGS)], ENCODED, ENCODED),
        ([("y", tensor("uint64", [2**64 - 1]))], [2**64 - 1], [2**64 - 1]),
        ([("y", tensor("bool", [True, False]))], [True, False], [True, False]),
        ([("y", tensor("int32", [[], []]))], [[], []], [[], []]),
        ([("y", tensor("half", [], (0, 3)))], [], []),
        ([("y", tensor("int32", [])), ("z", tensor("string", []))], [], {"y": [], "z": []}),
        (
            [
                ("int", INTS),
                ("str", STRINGS),
                ("float", tensor("float", [[1.5], [2.5]])),
                ("double", tensor("double", [8.0, 9.0])),
                ("str_bytes", STRINGS),
            ],
            [
                {"int": NESTED[0], "str": ["hello", "world"], "float": [1.5], "double": 8.0, "str_bytes": ENCODED[0]},
                {"int": NESTED[1], "str": ["tf", "serving"], "float": [2.5], "double": 9.0, "str_bytes": ENCODED[1]},
            ],
            {
                "int": NESTED,
                "str": [["hello", "world"], ["tf", "serving"]],
                "float": [[1.5], [2.5]],
                "double": [8.0, 9.0],
                "str_bytes": ENCODED,
            },
        ),
    ],
)
def test_values(outputs: list[tuple[str, Tensor]], predictions: Any, columns: Any) -> None:
    assert json.loads(predict_json(outputs, row=True)) == {"predictions": predictions}
    assert json.loads(predict_json(outputs, row=False)) == {"outputs": columns}


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        ([9000000, 999999, 0.5, 0.0003, 0.00003, 555557.5], "9e+06, 999999.0, 0.5, 0.0003, 3e-05, 555557.5"),
        ([np.nan, np.inf, 3, -np.inf], "NaN, Infinity, 3.0, -Infinity"),
    ],
)
def test_float_tokens(values: list[float], tokens: str) -> None:
    assert predict_json([("y", tensor("float", [values]))], row=True).decode() == (
        f'{{\n    "predictions": [[{tokens}]\n    ]\n}}'
    )
    found = re.findall(r"[^\s,\[\]{}:]+", predict_json([("y", tensor("float", values))], row=False).decode())
    assert ", ".join(found[1:]) == tokens


def test_scalars_have_columns_only() -> None:
    scalar = [("y", tensor("float", 3))]
    assert predict_json(scalar, row=False) == b'{\n    "outputs": 3.0\n}'
    with pytest.raises(InvalidArgument, match=r"^Tensor name: y has no shape information $"):
        predict_json(scalar, row=True)


@pytest.mark.parametrize("row", [True, False])
@pytest.mark.parametrize("dtype", ["complex64", "half", "bfloat16", "uint16", "qint8", "complex128"])
def test_types_that_cannot_be_written(dtype: str, row: bool) -> None:
    data = bytes(DTYPES[BY_NAME[dtype].number].itemsize)
    with pytest.raises(InvalidArgument, match=f"^Failed to write JSON value for tensor type: {dtype}$"):
        predict_json([("y", Tensor(BY_NAME[dtype].number, (1,), data))], row)


@pytest.mark.parametrize("row", [True, False])
def test_no_outputs(row: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"^Cannot convert empty tensor map to JSON$"):
        predict_json([], row)


@pytest.mark.parametrize(("first", "second"), [(2, 1), (0, 1)])
def test_rows_need_one_batch_size(first: int, second: int) -> None:
    outputs = [("a", tensor("int32", [1] * first)), ("b", tensor("int32", [1] * second))]
    sentence = f"^Tensor name: b has inconsistent batch size: {second} expecting: {first}$"
    with pytest.raises(InvalidArgument, match=sentence):
        predict_json(outputs, row=True)
    assert json.loads(predict_json(outputs, row=False)) == {"outputs": {"a": [1] * first, "b": [1] * second}}


@pytest.mark.parametrize(
    ("outputs", "row", "body"),
    [
        ([("y", tensor("float", [2.5, 3, 4.5]))], True, '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}'),
        ([("y", tensor("int32", [[1, 2], [3, 4]]))], True, '{\n    "predictions": [[1, 2], [3, 4]\n    ]\n}'),
        ([("y", tensor("int32", []))], True, '{\n    "predictions": []\n}'),
        (
            [("y_bytes", tensor("string", [b"a", b"b"]))],
            True,
            '{\n    "predictions": [{\n            "b64": "YQ=="\n        }, '
            '{\n            "b64": "Yg=="\n        }\n    ]\n}',
        ),
        (
            [("a", tensor("int32", [1, 2])), ("b", tensor("int32", [[1, 2], [3, 4]]))],
            True,
            '{\n    "predictions": [\n        {\n            "a": 1,\n            "b": [1, 2]\n        },\n'
            '        {\n            "a": 2,\n            "b": [3, 4]\n        }\n    ]\n}',
        ),
    ],
)
def test_layout(outputs: list[tuple[str, Tensor]], row: bool, body: str) -> None:
    assert predict_json(outputs, row).decode() == body


@given(
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.booleans(),
    st.sampled_from(["x", "x_bytes"]),
)
def test_columns_are_laid_out_as_rapidjson_does(shape: tuple[int, ...], several: bool, alias: str) -> None:
    count = int(np.prod(shape))
    outputs = [(alias, Tensor(7, shape, frame([b"s%d" % index for index in range(count)])))]
    if several:
        outputs.append(("n", Tensor(3, shape, np.arange(count, dtype=np.int32).tobytes())))
    body = predict_json(outputs, row=False).decode()
    assert body == rapidjson.dumps(json.loads(body), indent=4)


def test_strings_go_out_byte_for_byte() -> None:
    body = predict_json([("y", tensor("string", [b'\xff"\\\n\x01', "é".encode()]))], row=True)
    assert body == b'{\n    "predictions": ["\xff\\"\\\\\\n\\u0001", "\xc3\xa9"\n    ]\n}'


def test_error() -> None:
    assert error_json('Bad key: "key"\n') == b'{\n    "error": "Bad key: \\"key\\"\\n"\n}'


def test_status() -> None:
    statuses = [
        VersionStatus(124, VersionState.END, Code.NOT_FOUND, "no <file>"),
        VersionStatus(123, VersionState.AVAILABLE),
    ]
    body = status_json(statuses).decode()
    assert body.startswith(
        '{\n "model_version_status": [\n  {\n   "version": "124",\n   "state": "END",\n   "status": {\n'
    )
    assert body.endswith("}\n")
    assert "no \\u003cfile\\u003e" in body
    assert json.loads(body) == {
        "model_version_status": [
            {"version": "124", "state": "END", "status": {"error_code": "NOT_FOUND", "error_message": "no <file>"}},
            {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}},
        ]
    }
    assert json.loads(status_json([])) == {"model_version_status": []}


def test_metadata() -> None:
    definitions = get_model_metadata_pb2.SignatureDefMap()
    signature = definitions.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    signature.inputs["x"].name = "x:0"
    signature.inputs["x"].dtype = 1
    signature.inputs["x"].tensor_shape.dim.add(size=-1)
    signature.outputs["y"].name = "y:0"
    signature.outputs["y"].dtype = 101
    signature.outputs["y"].tensor_shape.unknown_rank = True
    signature.defaults["x"].dtype = 1
    signature.defaults["x"].float_val.append(0.5)
    body = metadata_json("m", 123, definitions.SerializeToString()).decode()
    assert body.startswith(
        '{\n"model_spec":{\n "name": "m",\n "signature_name": "",\n "version": "123"\n}\n,\n'
        '"metadata": {"signature_def": {\n "signature_def": {\n  "serving_default": {\n   "inputs": {\n    "x": {\n'
        '     "dtype": "DT_FLOAT",\n     "tensor_shape": {\n      "dim": [\n       {\n        "size": "-1",\n'
        '        "name": ""\n       }\n      ],\n      "unknown_rank": false\n     },\n     "name": "x:0"\n'
    )
    assert body.endswith("}\n}\n}\n")
    answered = json.loads(body)["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert list(answered) == ["inputs", "outputs", "method_name", "defaults"]
    assert answered["outputs"]["y"] == {
        "dtype": "DT_FLOAT_REF",
        "tensor_shape": {"dim": [], "unknown_rank": True},
        "name": "y:0",
    }
    assert answered["defaults"]["x"]["float_val"] == [0.5]
