"""TF Serving's REST API row by row over a real server on a real Triton: URLs, requests, responses, errors, headers.

Rows without an outer surface, and why:
- `Cannot convert empty tensor map to JSON`: a SavedModel's signature that can be called has an output.
- a buffer without its NUL, a tensor without its shape: faults of C++ callers that HTTP cannot make.
- a model's answer of UNAVAILABLE, UNKNOWN and the like: bridge/errors.py has the table, tests/tfserving the mapping.
"""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry

pytestmark = pytest.mark.integration

ODD = "modelname!#$%&'()*+,/:;=?@[]"
ODD_ESCAPED = "modelname%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D"
DEEP = "[" * 500_000 + "]" * 500_000


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    directory = tmp_path_factory.mktemp("rest")
    half = savedmodels.make("half_plus_two", directory / "half" / "123").parent
    entries = [
        Entry("half", half, labels={"Version_Label": 123}),
        Entry(ODD, half, labels={ODD: 123}),
        Entry("echo", savedmodels.make("echo", directory / "echo" / "1").parent),
        Entry("counter", savedmodels.make("counter", directory / "counter" / "1").parent),
    ]
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        yield server


def ask(
    server: BridgeServer,
    method: str,
    target: str,
    body: bytes | str = b"",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    connection = http.client.HTTPConnection(server.rest, timeout=30)
    try:
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        lower = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, response.read(), lower)
    finally:
        connection.close()


def error(message: str) -> bytes:
    return f'{{\n    "error": {json.dumps(message, ensure_ascii=False)}\n}}'.encode()


MALFORMED = [
    ("GET", "/v1/foo"),
    ("POST", "/v1/foo"),
    ("GET", "/v1/models/debug/model_name"),
    ("POST", "/v1/models"),
    ("POST", "/v1/models/half"),
    ("GET", "/v1/models/half:predict"),
    ("GET", "/v1/models/half/version/50:predict"),
    ("POST", "/v1/models/half/version/50:predict"),
    ("POST", "/v1/models/half/versions/HELLO:regress"),
    ("POST", "/v1/models/half/metadata"),
    ("POST", "/v1/models/half/label/some_label:regress"),
    ("POST", "/v1/models/half/versions/123/labels/Version_Label:regress"),
    ("POST", "/v1/models/half/versions/some_label:regress"),
    ("POST", "/v1/models/half:PREDICT"),
    ("POST", "/v1/models/half:explain"),
    ("POST", "/v1/models/half:predict?x=1"),
    ("POST", "/v1/models/half:predict/"),
    ("GET", "/v1/models/half/"),
    ("GET", "/v1/"),
    ("PUT", "/v1/models/half:predict"),
    ("DELETE", "/v1/models/half"),
    ("PATCH", "/v1/models/half"),
]


@pytest.mark.parametrize(("method", "target"), MALFORMED)
def test_malformed_urls(server: BridgeServer, method: str, target: str) -> None:
    reply = ask(server, method, target, "{}")
    assert (reply.status, reply.body) == (400, error(f"Malformed request: {method} {target}"))
    assert reply.headers["content-type"] == "application/json"


def test_head_is_malformed_without_a_body(server: BridgeServer) -> None:
    assert ask(server, "HEAD", "/v1/models/half")[:2] == (400, b"")


@pytest.mark.parametrize("target", ["/", "/healthz", "/index", "/statuspage", "/v2x", "/v1"])
def test_paths_outside_the_api(server: BridgeServer, target: str) -> None:
    reply = ask(server, "GET", target)
    assert (reply.status, reply.headers["content-type"], reply.headers["connection"]) == (404, "text/html", "close")


@pytest.mark.parametrize(
    "target", ["/v1/models/half/versions/18446744073709551615", "/v1/models/half/versions/9223372036854775808/metadata"]
)
def test_version_overflow(server: BridgeServer, target: str) -> None:
    reply = ask(server, "GET", target)
    assert (reply.status, reply.body, reply.headers["content-type"]) == (400, b"", "application/json")
    assert ask(server, "POST", f"{target.removesuffix('/metadata')}:regress", "{}")[:2] == (400, b"")


PREDICT_URLS = [
    "/v1/models/half:predict",
    "/V1/Models/half:predict",
    "/v1/models/half/versions/123:predict",
    "/v1/models/half/versions/000123:predict",
    "/v1/models/half/labels/Version_Label:predict",
    "/v1/models/h%61lf:predict",
    f"/v1/models/{ODD_ESCAPED}:predict",
    f"/v1/models/{ODD_ESCAPED}/labels/{ODD_ESCAPED}:predict",
]


@pytest.mark.parametrize("target", PREDICT_URLS)
def test_predict_urls(server: BridgeServer, target: str) -> None:
    reply = ask(server, "POST", target, '{"instances": [1.0, 2.0]}')
    assert (reply.status, reply.body) == (200, b'{\n    "predictions": [2.5, 3.0\n    ]\n}')
    assert {name for name in reply.headers if name not in ("date", "content-length")} == {"content-type"}


def test_other_actions(server: BridgeServer) -> None:
    for prefix in ("half", "half/versions/123", "half/labels/Version_Label"):
        body = '{"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}]}'
        assert ask(server, "POST", f"/v1/models/{prefix}:regress", body).json == {"results": [42.0]}
        body = '{"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}]}'
        assert ask(server, "POST", f"/v1/models/{prefix}:classify", body).json == {"results": [[["", 12.0]]]}


STATUS = (
    b'{\n "model_version_status": [\n  {\n   "version": "123",\n   "state": "AVAILABLE",\n   "status": {\n'
    b'    "error_code": "OK",\n    "error_message": ""\n   }\n  }\n ]\n}\n'
)


@pytest.mark.parametrize(
    "target",
    [
        "/v1/models/half",
        "/v1/models/half/versions/123",
        "/v1/models/half/labels/unknown",
        "/v1/models/half/METADATA",
        f"/v1/models/{ODD_ESCAPED}/labels/{ODD_ESCAPED}",
    ],
)
def test_status(server: BridgeServer, target: str) -> None:
    reply = ask(server, "GET", target, "the body is ignored")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, STATUS, "application/json")


@pytest.mark.parametrize("target", ["half", "half/versions/123", "half/labels/Version_Label"])
def test_metadata(server: BridgeServer, target: str) -> None:
    reply = ask(server, "GET", f"/v1/models/{target}/metadata")
    assert reply.status == 200
    assert reply.json["model_spec"] == {"name": "half", "signature_name": "", "version": "123"}
    signatures = reply.json["metadata"]["signature_def"]["signature_def"]
    assert list(signatures) == sorted(signatures)
    assert signatures["serving_default"] == {
        "inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [], "unknown_rank": True}, "name": "x:0"}},
        "outputs": {"y": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [], "unknown_rank": True}, "name": "y:0"}},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    assert signatures["regress_x_to_y"]["inputs"]["inputs"]["dtype"] == "DT_STRING"


READING_REFUSED = [
    ("/v1/models", 400, "Missing model name in request."),
    ("/v1/models/versions/3", 400, "Missing model name in request."),
    ("/v1/models/metadata", 404, "Could not find any versions of model metadata"),
    ("/v1/models/no", 404, "Could not find any versions of model no"),
    ("/v1/models/half?x=1", 404, "Could not find any versions of model half?x=1"),
    ("/v1/models/half/versions/9", 404, "Could not find version 9 of model half"),
    ("/v1/models/no/metadata", 404, "Servable not found for request: Latest(no)"),
    ("/v1/models/half/versions/9/metadata", 404, "Servable not found for request: Specific(half, 9)"),
    ("/v1/models/half/labels/x/metadata", 400, "Unrecognized servable version label: x"),
]


@pytest.mark.parametrize(("target", "status", "message"), READING_REFUSED)
def test_reading_refuses(server: BridgeServer, target: str, status: int, message: str) -> None:
    assert ask(server, "GET", target)[:2] == (status, error(message))


def echo(server: BridgeServer, signature: str, body: str) -> Reply:
    """Ask the signature that answers what it is sent; `body` lacks only the signature's name."""
    return ask(server, "POST", "/v1/models/echo:predict", f'{{"signature_name": "{signature}", {body}}}')


ROWS = '\n    "predictions": [%s\n    ]\n'
ECHOED: dict[str, tuple[str, str, str]] = {
    "rows": ("int32", '"instances": [[1,2],[3,4],[5,6]]', ROWS % "[1, 2], [3, 4], [5, 6]"),
    "unknown keys": ("int32", f'"nested": {DEEP}, "instances": [1]', ROWS % "1"),
    "the first of equal keys": ("int32", '"instances": [1], "instances": ["a"]', ROWS % "1"),
    "trailing garbage": ("int32", '"instances": [1]} garbage {', ROWS % "1"),
    "floats": ("float", '"instances": [1, 2.0, 5.003, 0.007, 0.0]', ROWS % "1.0, 2.0, 5.003, 0.007, 0.0"),
    "doubles": ("double", '"instances": [1.0, 2, 0.662, 0]', ROWS % "1.0, 2.0, 0.662, 0.0"),
    "precision may be lost": (
        "float",
        '"instances": [1435774380, 1435774380.0]',
        ROWS % "1.43577434e+09, 1.43577434e+09",
    ),
    "overflow of floats": ("float", '"instances": [1.79769e+308, -1.79769e+308]', ROWS % "Infinity, -Infinity"),
    "underflow of floats": ("float", '"instances": [2.22507e-308, -2.22507e-308]', ROWS % "0.0, -0.0"),
    "number text": (
        "float",
        '"instances": [[9000000, 999999, 0.5], [0.0003, 0.00003, 555557.5], [0.1, 0.333333343, 3]]',
        ROWS % "[9e+06, 999999.0, 0.5], [0.0003, 3e-05, 555557.5], [0.1, 0.333333343, 3.0]",
    ),
    "number text of doubles": ("double", '"instances": [0.1, 0.3333333333333333]', ROWS % "0.1, 0.33333333333333331"),
    "NaN and Infinity": (
        "float",
        '"instances": [NaN, -NaN, Inf, Infinity, -Inf, -Infinity]',
        ROWS % "NaN, NaN, Infinity, Infinity, -Infinity, -Infinity",
    ),
    "base64 scalars": (
        "string",
        '"instances": [{"b64":"aGVsbG8="}, {"b64":"d29ybGQ"}]',
        ROWS % '"hello", "world"',
    ),
    "base64 in lists": (
        "string",
        '"instances": [{"x": [[{"b64":"aGVsbG8="}],["world"]]}]',
        ROWS % '[["hello"], ["world"]]',
    ),
    "escapes": (
        "string",
        r'"instances": ["\u0000\"\\\/\b\n\u00e9\ud83d\ude00\u0007"]',
        ROWS % r'"\u0000\"\\/\b\né😀\u0007"',
    ),
    "int64": (
        "int64",
        '"instances": [9223372036854775807, -9223372036854775808]',
        ROWS % "9223372036854775807, -9223372036854775808",
    ),
    "uint64": ("uint64", '"instances": [18446744073709551615, 0]', ROWS % "18446744073709551615, 0"),
    "uint32": ("uint32", '"instances": [4294967295]', ROWS % "4294967295"),
    "narrow integers wrap": ("int8", '"instances": [127, 128, -129, 300]', ROWS % "127, -128, 127, 44"),
    "uint8": ("uint8", '"instances": [255, 256, -1]', ROWS % "255, 0, 255"),
    "bool": ("bool", '"instances": [true, false]', ROWS % "true, false"),
    "empty lists": ("float", '"instances": [[], []]', ROWS % "[], []"),
    "columns": (
        "int32",
        '"inputs": {"x": [[1,2],[3,4]]}',
        '\n    "outputs": [\n        [\n            1,\n            2\n        ],\n        [\n            3,\n'
        "            4\n        ]\n    ]\n",
    ),
    "a column": ("float", '"inputs": [1.5, 2]', '\n    "outputs": [\n        1.5,\n        2.0\n    ]\n'),
    "a scalar column": ("float", '"inputs": 1.5', '\n    "outputs": 1.5\n'),
    "a base64 column": ("string", '"inputs": {"b64":"aGVsbG8="}', '\n    "outputs": "hello"\n'),
    "an empty column": ("float", '"inputs": []', '\n    "outputs": []\n'),
    "ignored columns": ("float", '"inputs": {"x": 1.5, "y": 2}', '\n    "outputs": 1.5\n'),
    "a scalar output in columns": ("scalar", '"inputs": [1.0, 2.0]', '\n    "outputs": 3.0\n'),
    "no rows": ("none", '"instances": [1.0]', '\n    "predictions": []\n'),
    "rows of objects": (
        "encoded",
        '"instances": [{"int_tensor": [1,2], "str_tensor": "a"}, {"str_tensor": "b", "int_tensor": [3,4]}]',
        ROWS
        % ",".join(
            f'\n        {{\n            "int_tensor": [{numbers}],\n            "str_bytes": {{\n'
            f'                "b64": "{code}"\n            }},\n            "str_tensor": "{text}"\n        }}'
            for numbers, code, text in (("1, 2", "YQ==", "a"), ("3, 4", "Yg==", "b"))
        ),
    ),
    "columns of objects": (
        "binary",
        '"inputs": {"int_tensor": [[1,2]], "str_tensor": ["foo"], "bin_tensor": {"b64": "aGVsbG8="}}',
        '\n    "outputs": {\n        "bin_tensor": "hello",\n        "int_tensor": [\n            [\n'
        "                1,\n                2\n            ]\n        ],\n"
        '        "str_tensor": [\n            "foo"\n        ]\n    }\n',
    ),
}


@pytest.mark.parametrize("case", ECHOED)
def test_tensors_there_and_back(server: BridgeServer, case: str) -> None:
    signature, body, text = ECHOED[case]
    reply = echo(server, signature, body)
    assert (reply.status, reply.body.decode()) == (200, f"{{{text}}}")


def test_four_dtypes_in_rows(server: BridgeServer) -> None:
    rows = [
        {"int_tensor": [[1, 2], [3, 4], [5, 6]], "str_tensor": ["foo", "bar"], "float_tensor": [1.0], "dbl_tensor": []},
        {"int_tensor": [[7, 8], [9, 0], [1, 2]], "str_tensor": ["baz", "bat"], "float_tensor": [2.0], "dbl_tensor": []},
    ]
    assert echo(server, "mixed", f'"instances": {json.dumps(rows)}').json == {"predictions": rows}


def test_bytes_that_are_no_text_come_back_raw(server: BridgeServer) -> None:
    reply = echo(server, "string", '"instances": [{"b64": "//4="}]')
    assert reply.body == b'{\n    "predictions": ["\xff\xfe"\n    ]\n}'


def in_row(place: str, message: str) -> str:
    return f"Failed to process element: {place} of 'instances' list. Error: INVALID_ARGUMENT: {message}"


def dump(signature: str, body: str) -> str:
    """The JSON value that an error text shows."""
    return f'JSON Value: {{\n    "signature_name": "{signature}",\n    {body}\n}}'


SEVERAL = "tensors required as per tensorinfo_map"
REFUSED: dict[str, tuple[str, str, str]] = {
    "both keys": (
        "float",
        '"instances": [1], "inputs": [1]',
        dump("float", '"instances": [1],\n    "inputs": [1]')
        + " Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
    ),
    "no key": ("float", '"other": 1', "Missing 'inputs' or 'instances' key"),
    "no list": (
        "float",
        '"instances": 1',
        dump("float", '"instances": 1') + " Expecting 'instances' to be an list/array",
    ),
    "empty": (
        "float",
        '"instances": []',
        dump("float", '"instances": []') + " No values in 'instances' array",
    ),
    "plain list": (
        "mixed",
        '"instances": [1]',
        f"instances is a plain list, but expecting list of objects as multiple input {SEVERAL}",
    ),
    "plain column": (
        "mixed",
        '"inputs": [1]',
        f"inputs is a plain value/list, but expecting an object as multiple input {SEVERAL}",
    ),
    "list among objects": (
        "float",
        '"instances": [{"x": 1}, [2]]',
        "Expecting object but got list at item 1 of input list",
    ),
    "object among lists": (
        "float",
        '"instances": [1, {"x": 1}]',
        "Expecting value/list but got object at item 1 of input list",
    ),
    "unknown input": (
        "float",
        '"instances": [{"z": 1}]',
        in_row("0 key: z", "JSON object: does not have named input: z"),
    ),
    "missing input": (
        "encoded",
        '"instances": [{"int_tensor": 1}]',
        "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"int_tensor\": 1\n} "
        "keys must be equal to: int_tensor,str_tensor",
    ),
    "missing column": ("encoded", '"inputs": {"int_tensor": 1}', "Missing named input: str_tensor in 'inputs' object."),
    "sizes": ("int32", '"instances": [[1,2],[3,4],[5,6,7]]', in_row("2", "Expecting tensor size: 2 but got: 3")),
    "shapes": ("int32", '"instances": [[1,2],[3,4],[[5,6]]]', in_row("2", "Expecting shape [2] but got: [1,2]")),
    "ranks": ("int32", '"instances": [1,[1]]', in_row("1", "Expecting shape [] but got: [1]")),
    "level": (
        "int32",
        '"instances": [[[1],2]]',
        in_row("0", "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
    ),
    "deeper": ("int32", '"instances": [[1,[2]]]', in_row("0", "Encountered list at unexpected level: 1 expected < 1")),
    "ragged": (
        "int32",
        '"instances": [[[1],[2,3]]]',
        in_row("0", "Encountered list at unexpected size: 2 at level: 1 expected size: 1"),
    ),
    "text for a number": (
        "int32",
        '"instances": [[1,2],["a","b"]]',
        in_row("1", 'JSON Value: "a" Type: String is not of expected type: int32'),
    ),
    "a fraction for an integer": (
        "int32",
        '"inputs": 1.0',
        "JSON Value: 1.0 Type: Number is not of expected type: int32",
    ),
    "past int32": (
        "int16",
        '"inputs": 2147483648',
        "JSON Value: 2147483648 Type: Number is not of expected type: int16",
    ),
    "negative": ("uint32", '"inputs": -1', "JSON Value: -1 Type: Number is not of expected type: uint32"),
    "past int64": (
        "int64",
        '"inputs": 9223372036854775808',
        "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64",
    ),
    "number for bool": ("bool", '"inputs": 1', "JSON Value: 1 Type: Number is not of expected type: bool"),
    "bool for number": ("float", '"inputs": true', "JSON Value: true Type: True is not of expected type: float"),
    "null": ("float", '"inputs": null', "JSON Value: null Type: Null is not of expected type: float"),
    "number for string": ("string", '"inputs": 1', "JSON Value: 1 Type: Number is not of expected type: string"),
    "bad base64 object": (
        "string",
        '"instances": [[{"b64": 1}]]',
        in_row("0", 'JSON Value: {\n    "b64": 1\n} not formatted correctly for base64 data'),
    ),
    "bad base64": ("string", '"inputs": {"b64": "%"}', "Unable to base64 decode"),
    "a scalar output in rows": ("scalar", '"instances": [1.0]', "Tensor name: y has no shape information "),
    "uneven outputs": (
        "uneven",
        '"instances": [1.0, 2.0]',
        "Tensor name: z has inconsistent batch size: 2 expecting: 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_predict_refuses(server: BridgeServer, case: str) -> None:
    signature, body, message = REFUSED[case]
    reply = echo(server, signature, body)
    assert (reply.status, reply.json) == (400, {"error": message})


@pytest.mark.parametrize("name", ["half", "bfloat16", "uint16", "complex64", "complex128"])
def test_dtypes_without_a_json_form(server: BridgeServer, name: str) -> None:
    """A column keeps the code of the conversion, a row does not."""
    message = f"Conversion of JSON Value: 1 to type: {name}"
    column, row = (echo(server, name, f'"{key}": [1]') for key in ("inputs", "instances"))
    assert (column.status, column.body) == (501, error(message))
    wrapped = f"Failed to process element: 0 of 'instances' list. Error: UNIMPLEMENTED: {message}"
    assert (row.status, row.body) == (400, error(wrapped))


BODIES = [
    ("half", "", 400, "JSON Parse error: The document is empty"),
    ("half", "instances = [1, 2]", 400, "JSON Parse error: Invalid value. at offset: 0"),
    ("half", '{"instances": [1}', 400, "JSON Parse error: Missing a comma or ] after an array element. at offset: 16"),
    ("half", '{"instances": [1]', 400, "JSON Parse error: Missing a comma or } after an object member. at offset: 17"),
    ("half", "[1, 2]", 400, "JSON Value: [1, 2] Is not object"),
    (
        "half",
        '{"signature_name": 5}',
        400,
        'JSON Value: {\n    "signature_name": 5\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    ("no", '{"instances": [1]}', 404, "Servable not found for request: Latest(no)"),
    ("half/versions/9", "{}", 404, "Servable not found for request: Specific(half, 9)"),
    ("half/labels/no", '{"instances": ["x"]}', 400, "Unrecognized servable version label: no"),
    ("half", '{"signature_name": "no"}', 400, 'Serving signature name: "no" not found in signature def'),
    ("counter", '{"instances": [1]}', 400, 'Serving signature name: "serving_default" not found in signature def'),
    ("counter", '{"signature_name": "get_counter"}', 400, "Failed to get input map for signature: get_counter"),
]


@pytest.mark.parametrize(("model", "body", "status", "message"), BODIES)
def test_bodies_are_checked_in_order(server: BridgeServer, model: str, body: str, status: int, message: str) -> None:
    reply = ask(server, "POST", f"/v1/models/{model}:predict", body)
    assert (reply.status, reply.json) == (status, {"error": message})


def test_a_deep_signature_name(server: BridgeServer) -> None:
    reply = ask(server, "POST", "/v1/models/half:predict", f'{{"signature_name": {DEEP}}}')
    assert reply.status == 400
    assert reply.body.endswith(b"'signature_name' key must be a string value.\"\n}")


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate, gzip"])
def test_gzip(server: BridgeServer, encoding: str) -> None:
    body = gzip.compress(b'{"instances": [1.0]}')
    reply = ask(server, "POST", "/v1/models/half:predict", body, {"Content-Encoding": encoding})
    assert reply.json == {"predictions": [2.5]}
    assert "content-encoding" not in reply.headers


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"{}")[:-4], gzip.compress(bytes(100 * 2**20 + 1))],
    ids=["not gzip", "cut", "too large"],
)
def test_bodies_that_cannot_be_inflated_read_as_empty(server: BridgeServer, body: bytes) -> None:
    reply = ask(server, "POST", "/v1/models/half:predict", body, {"Content-Encoding": "gzip"})
    assert (reply.status, reply.body) == (400, error("JSON Parse error: The document is empty"))


@pytest.mark.parametrize(("origin", "status"), [("http://a.example", 200), ("https://a.example", 200), ("a", 400)])
def test_preflight(server: BridgeServer, origin: str, status: int) -> None:
    reply = ask(server, "OPTIONS", "/v1/models/half:predict", headers={"Origin": origin})
    assert (reply.status, reply.body) == (status, b"")
    assert not [name for name in reply.headers if name.startswith("access-control")]
