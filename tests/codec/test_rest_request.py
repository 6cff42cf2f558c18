from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec import json_values
from bridge.codec.rest_request import parse_predict_body, tensors
from bridge.codec.string_tensor import unframe
from bridge.codec.tensor import Tensor
from bridge.errors import BridgeError, Code, InvalidArgument
from bridge.serving.routes import TensorRoute
from model_repo_sync.runner.tensorflow_engine.dtypes import BY_NAME, DTYPES

DEEP = 500_000
INT, STR, FLT, DBL = (
    TensorRoute(f"{name}_tensor", f"{name}:0", dtype)
    for name, dtype in [("int", 3), ("str", 7), ("flt", 1), ("dbl", 2)]
)


def one(dtype: str) -> list[TensorRoute]:
    return [TensorRoute("x", "x:0", BY_NAME[dtype].number)]


def read(inputs: list[TensorRoute], body: str | bytes) -> dict[str, Tensor]:
    return tensors(parse_predict_body(body.encode() if isinstance(body, str) else body), inputs)


def refusal(inputs: list[TensorRoute], body: str | bytes) -> BridgeError:
    with pytest.raises(BridgeError) as refused:
        read(inputs, body)
    return refused.value


def values(tensor: Tensor) -> Any:
    """The tensor as nested lists."""
    if tensor.dtype == 7:
        return np.array([*unframe(tensor.data), None], object)[:-1].reshape(tensor.shape).tolist()
    return np.frombuffer(tensor.data, DTYPES[tensor.dtype].numpy).reshape(tensor.shape).tolist()


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        (one("int32"), '{"instances":[[1,2],[3,4],[5,6]]}', {"x": [[1, 2], [3, 4], [5, 6]]}),
        (one("float"), '{"instances":[1, 2.0, 3, 4, 5.5, 0.25, 0.0]}', {"x": [1, 2, 3, 4, 5.5, 0.25, 0]}),
        (one("double"), '{"instances":[1.0, 2, 3, 4, 0.662, 0, 0.0]}', {"x": [1, 2, 3, 4, 0.662, 0, 0]}),
        (one("float"), '{"instances":[1435774380]}', {"x": [1435774336]}),
        (one("float"), '{"instances":[1435774380.0]}', {"x": [1435774336]}),
        (one("float"), '{"instances":[1.79769e+308, -1.79769e+308]}', {"x": [math.inf, -math.inf]}),
        (one("float"), '{"instances":[2.22507e-308, -2.22507e-308]}', {"x": [0.0, -0.0]}),
        (one("float"), '{"instances":[18446744073709551615]}', {"x": [2.0**64]}),
        (one("string"), '{"instances":[{"b64":"aGVsbG8="},{"b64":"d29ybGQ="}]}', {"x": [b"hello", b"world"]}),
        (one("string"), '{"instances":[[{"b64":"aGVsbG8="}],[{"b64":"d29ybGQ="}]]}', {"x": [[b"hello"], [b"world"]]}),
        (one("string"), '{"instances":["_9j_4AA", "é"]}', {"x": [b"_9j_4AA", "é".encode()]}),
        (
            one("string"),
            '{"instances":[{"x":[[{"b64":"aGVsbG8="}],[{"b64":"d29ybGQ="}]]}]}',
            {"x": [[[b"hello"], [b"world"]]]},
        ),
        (
            [INT, STR, FLT, DBL],
            """{"instances":[
              {"int_tensor":[[1,2],[3,4],[5,6]], "str_tensor":["foo","bar"], "flt_tensor":[1.0,-Infinity],
               "dbl_tensor":[2.5]},
              {"int_tensor":[[7,8],[9,0],[1,2]], "str_tensor":["baz","bat"], "flt_tensor":[2.0,Infinity],
               "dbl_tensor":[2]}]}""",
            {
                "int_tensor": [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]],
                "str_tensor": [[b"foo", b"bar"], [b"baz", b"bat"]],
                "flt_tensor": [[1.0, -math.inf], [2.0, math.inf]],
                "dbl_tensor": [[2.5], [2.0]],
            },
        ),
        ([INT], '{"inputs":{"int_tensor":[[[1,2],[3,4],[5,6]]]}}', {"int_tensor": [[[1, 2], [3, 4], [5, 6]]]}),
        ([INT], '{"inputs":[[[1,2],[3,4],[5,6]]]}', {"int_tensor": [[[1, 2], [3, 4], [5, 6]]]}),
        (
            [INT, STR, FLT],
            '{"inputs":{"int_tensor":[[1]],"str_tensor":{"b64":"aGVsbG8="},"flt_tensor":7,"more":null}}',
            {"int_tensor": [[1]], "str_tensor": b"hello", "flt_tensor": 7.0},
        ),
        (one("string"), '{"inputs":{"b64":"aGVsbG8="}}', {"x": b"hello"}),
        (one("int32"), '{"inputs":5}', {"x": 5}),
        (one("int32"), '{"inputs":[]}', {"x": []}),
        (one("int32"), '{"instances":[[],[]]}', {"x": [[], []]}),
        (one("half"), '{"inputs":[[]]}', {"x": [[]]}),
        (one("uint8"), '{"inputs":[300, -1]}', {"x": [44, 255]}),
        (one("int8"), '{"inputs":[200]}', {"x": [-56]}),
        (one("int64"), '{"inputs":[-9223372036854775808, 9223372036854775807]}', {"x": [-(2**63), 2**63 - 1]}),
        (one("uint64"), '{"inputs":18446744073709551615}', {"x": 2**64 - 1}),
        (one("uint32"), '{"inputs":[4294967295]}', {"x": [2**32 - 1]}),
        (one("bool"), '{"inputs":[true, false]}', {"x": [True, False]}),
        (one("int32"), b'{"instances":[1],"nested":' + b"[" * DEEP + b"]" * DEEP + b"}", {"x": [1]}),
        (one("int32"), '{"instances":[1]}x', {"x": [1]}),
        (one("int32"), '{"instances":[{"x":1,"x":2},{"x":3}]}', {"x": [1, 3]}),
    ],
    ids=lambda value: value[:60] if isinstance(value, str | bytes) else "",
)
def test_tensors(inputs: list[TensorRoute], body: str | bytes, expected: dict[str, Any]) -> None:
    result = read(inputs, body)
    assert {alias: values(tensor) for alias, tensor in result.items()} == expected
    assert {alias: tensor.dtype for alias, tensor in result.items()} == {route.alias: route.dtype for route in inputs}


def test_signs_and_nan_survive() -> None:
    result = values(read(one("float"), '{"inputs":[NaN, -0.0, -2.2e-308]}')["x"])
    assert math.isnan(result[0])
    assert [math.copysign(1, value) for value in result[1:]] == [-1, -1]


@pytest.mark.parametrize(
    ("body", "name", "row"),
    [
        ('{"signature_name":"predict_images","instances":[[1,2]]}', "predict_images", True),
        ('{"inputs":[[1,2]]}', "", False),
        ("{}", "", False),
    ],
)
def test_parsed_body(body: str, name: str, row: bool) -> None:
    request = parse_predict_body(body.encode())
    assert (request.signature_name, request.row) == (name, row)


@pytest.mark.parametrize("body", ['{"signature_name": 5}', b'{"signature_name":' + b"[" * DEEP + b"]" * DEEP + b"}"])
def test_signature_name_must_be_a_string(body: str | bytes) -> None:
    refused = refusal(one("int32"), body)
    assert refused.message.startswith('JSON Value: {\n    "signature_name": ')
    assert refused.message.endswith(" not formatted correctly. 'signature_name' key must be a string value.")
    assert len(refused.message) < 400


ROW = "Failed to process element: "
LIST = " of 'instances' list. Error: INVALID_ARGUMENT: "


@pytest.mark.parametrize(
    ("inputs", "body", "sentence"),
    [
        ([], '{"signature_name":"s","instances":[1]}', "Failed to get input map for signature: s"),
        ([], '{"instances":[1]}', "Failed to get input map for signature: DEFAULT"),
        (one("int32"), "{}", "Missing 'inputs' or 'instances' key"),
        (
            one("int32"),
            '{"instances":[1],"inputs":[1]}',
            'JSON Value: {\n    "instances": [1],\n    "inputs": [1]\n} '
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
        ),
        (
            one("int32"),
            '{"instances":{}}',
            "JSON Value: {\n    \"instances\": {}\n} Expecting 'instances' to be an list/array",
        ),
        (one("int32"), '{"instances":[]}', "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"),
        (one("int32"), '{"instances":[[1,2],[3,4],[5,6,7]]}', f"{ROW}2{LIST}Expecting tensor size: 2 but got: 3"),
        (
            one("int32"),
            '{"instances":[[1,2],[3,4],[[5,6]]]}',
            f"{ROW}2{LIST}Expecting shape [2] but got: [1,2]",
        ),
        (one("int32"), '{"instances":[1,[1]]}', f"{ROW}1{LIST}Expecting shape [] but got: [1]"),
        (
            one("int32"),
            '{"instances":[[1,2],["a","b"]]}',
            f'{ROW}1{LIST}JSON Value: "a" Type: String is not of expected type: int32',
        ),
        (
            [INT, STR],
            '{"instances":[{"int_tensor":[1],"str_tensor":"a"},{"int_tensor":[[1]],"str_tensor":"b"}]}',
            f"{ROW}1 key: int_tensor{LIST}Expecting shape [1] but got: [1,1]",
        ),
        (
            [INT, STR],
            '{"instances":[{"int_tensor":[1,2],"str_tensor":"a"},{"int_tensor":[1],"str_tensor":"b"}]}',
            f"{ROW}1 key: int_tensor{LIST}Expecting tensor size: 2 but got: 1",
        ),
        (
            [INT, STR],
            '{"instances":[{"int_tensor":1,"str_tensor":"a"},[1]]}',
            "Expecting object but got list at item 1 of input list",
        ),
        (
            one("string"),
            '{"instances":["a",{"x":"a"}]}',
            "Expecting value/list but got object at item 1 of input list",
        ),
        (
            [INT, STR],
            '{"instances":[1]}',
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        ),
        (
            [INT, STR],
            '{"inputs":[1]}',
            "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
            "tensorinfo_map",
        ),
        (
            one("int32"),
            '{"instances":[{"x":1},{"x":1,"y":2}]}',
            f"{ROW}1 key: y{LIST}JSON object: does not have named input: y",
        ),
        (
            [INT, STR],
            '{"instances":[{"str_tensor":"a"}]}',
            f'{ROW}0 of \'instances\' list. JSON object: {{\n    "str_tensor": "a"\n}} '
            "keys must be equal to: int_tensor,str_tensor",
        ),
        ([INT, STR], '{"inputs":{"int_tensor":1}}', "Missing named input: str_tensor in 'inputs' object."),
        (
            one("int32"),
            '{"inputs":[[1],2]}',
            "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
        ),
        (one("int32"), '{"inputs":[1,[2]]}', "Encountered list at unexpected level: 1 expected < 1"),
        (
            one("int32"),
            '{"inputs":[[1,2],[3]]}',
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
        ),
        (one("string"), '{"inputs":[{"b64":"_-8="}]}', "Unable to base64 decode"),
        (
            one("string"),
            '{"inputs":[{"b64":"","a":1}]}',
            'JSON Value: {\n    "b64": "",\n    "a": 1\n} not formatted correctly for base64 data',
        ),
        (one("int32"), '{"inputs":' + "[" * 280 + "]" * 280 + "}", "tensor parsing error: x"),
        (one("int32"), '{"inputs":' + "[" * DEEP + "]" * DEEP + "}", "tensor parsing error: x"),
    ],
    ids=lambda value: value[:70] if isinstance(value, str) else "",
)
def test_refusals(inputs: list[TensorRoute], body: str, sentence: str) -> None:
    refused = refusal(inputs, body)
    assert refused.message == sentence
    assert refused.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("dtype", "value", "shown"),
    [
        ("float", '"a"', '"a" Type: String'),
        ("float", "true", "true Type: True"),
        ("float", '{"b64":"aa"}', '{\n    "b64": "aa"\n} Type: Object'),
        ("double", "null", "null Type: Null"),
        ("int32", "1.0", "1.0 Type: Number"),
        ("int32", "2147483648", "2147483648 Type: Number"),
        ("uint8", "2147483648", "2147483648 Type: Number"),
        ("int64", "9223372036854775808", "9223372036854775808 Type: Number"),
        ("uint32", "-1", "-1 Type: Number"),
        ("uint64", "18446744073709551616", "1.8446744073709552e+19 Type: Number"),
        ("bool", "1", "1 Type: Number"),
        ("string", "1", "1 Type: Number"),
        ("string", "false", "false Type: False"),
        ("half", "{}", "{} Type: Object"),
    ],
)
def test_values_of_another_type(dtype: str, value: str, shown: str) -> None:
    assert refusal(one(dtype), f'{{"inputs":[{value}]}}').message == (
        f"JSON Value: {shown} is not of expected type: {dtype}"
    )


@pytest.mark.parametrize("dtype", ["half", "bfloat16", "uint16", "complex64", "qint8", "float8_e5m2"])
def test_dtypes_without_a_json_form(dtype: str) -> None:
    columns = refusal(one(dtype), '{"inputs":[0]}')
    assert columns.code is Code.UNIMPLEMENTED
    assert columns.message == f"Conversion of JSON Value: 0 to type: {dtype}"
    rows = refusal(one(dtype), '{"instances":[0]}')
    assert rows.code is Code.INVALID_ARGUMENT
    assert rows.message == f"{ROW}0 of 'instances' list. Error: UNIMPLEMENTED: {columns.message}"


LEAVES = (
    st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.none()
    | st.text("ab", max_size=2)
    | st.sampled_from([{"b64": "aGk="}, {"b64": "!"}, {"x": 1}])
)


@st.composite
def dense_lists(draw: st.DrawFn, shape: list[int]) -> Any:
    kind = draw(
        st.sampled_from(
            [st.integers(0, 200), st.floats(width=32, allow_nan=False), st.booleans(), st.text("ab"), LEAVES]
        )
    )
    flat = draw(st.lists(kind, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    for size in reversed(shape[1:]):
        flat = [flat[start : start + size] for start in range(0, len(flat), size)]
    return flat


INSTANCES = st.lists(st.integers(1, 3), min_size=1, max_size=3).flatmap(dense_lists) | st.lists(
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=4), min_size=1, max_size=3
)


@given(
    dtype=st.sampled_from(["float", "double", "int32", "uint8", "int64", "uint64", "bool", "string", "half"]),
    instances=INSTANCES,
    form=st.sampled_from(["instances", "inputs", "objects"]),
)
def test_the_fast_path_changes_nothing(dtype: str, instances: list[Any], form: str) -> None:
    body = {"inputs" if form == "inputs" else "instances": instances}
    if form == "objects":
        body = {"instances": [{"x": item} for item in instances]}
    data = json.dumps(body).encode()
    fast = outcome(one(dtype), data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "_all_plain", lambda elements, dtype: False)
        assert outcome(one(dtype), data) == fast


def outcome(inputs: list[TensorRoute], body: bytes) -> dict[str, Tensor] | tuple[Code, str]:
    try:
        return read(inputs, body)
    except BridgeError as error:
        return error.code, error.message


def test_json_parse_errors_come_first() -> None:
    with pytest.raises(InvalidArgument, match="The document is empty"):
        parse_predict_body(b"")
