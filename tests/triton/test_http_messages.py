from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import Code
from bridge.triton.calls import CallError, ModelCall, WireTensor
from bridge.triton.http_messages import SCRATCH, ProtocolError, RequestTemplates, Response, ResponseReader, outputs


def parse(buffers: list[bytes | bytearray | memoryview]) -> tuple[bytes, dict[str, object], bytes]:
    """The request line, the JSON document and the tensors of a request, checked against its two lengths."""
    head, _, body = b"".join(buffers).partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    fields = dict(field.split(b": ", 1) for field in lines)
    assert int(fields[b"Content-Length"]) == len(body)
    size = int(fields[b"Inference-Header-Content-Length"])
    return line, orjson.loads(body[:size]), body[size:]


def test_request() -> None:
    templates = RequestTemplates("h:1", {"Authorization": "100%"})
    tensors = [WireTensor("x%d:0", "FP32", (1,), b"\0\0\0\0"), WireTensor('q"', "BYTES", (), memoryview(b"\1\0\0\0%"))]
    call = ModelCall("tfs.0123abcd.a.1", tensors, ["y:0", "%b"], {"shapes": '{"x:0":[]}'}, request_id="7%")
    for _ in range(2):
        line, document, data = parse(templates.buffers(call, 1.5))
        assert line == b"POST /v2/models/tfs.0123abcd.a.1/infer HTTP/1.1"
        assert data == b"\0\0\0\0\1\0\0\0%"
        assert document == {
            "id": "7%",
            "parameters": {"timeout": 1_500_000, "shapes": '{"x:0":[]}'},
            "inputs": [
                {"name": "x%d:0", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}},
                {"name": 'q"', "datatype": "BYTES", "shape": [], "parameters": {"binary_data_size": 5}},
            ],
            "outputs": [
                {"name": "y:0", "parameters": {"binary_data": True}},
                {"name": "%b", "parameters": {"binary_data": True}},
            ],
        }


def test_model_name_cannot_leave_the_path() -> None:
    line, _, _ = parse(RequestTemplates("h:1", {}).buffers(ModelCall("a/../b HTTP", [], ["y"]), 1))
    assert line == b"POST /v2/models/a%2F..%2Fb%20HTTP/infer HTTP/1.1"


@pytest.mark.parametrize("header", ["a\r\nX: 1", "a\nb"])
def test_headers_hold_no_line_breaks(header: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        RequestTemplates("h:1", {"Authorization": header})


def read(reader: ResponseReader, data: bytes, step: int) -> list[Response]:
    responses = []
    while data:
        buffer = reader.buffer()
        count = min(step, len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        response = reader.received(count)
        if response is not None:
            responses.append(response)
    return responses


def http(body: bytes, *fields: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join([status, *fields, b"", body])


def sized(body: bytes, *fields: bytes) -> bytes:
    return http(body, b"Content-Length: %d" % len(body), *fields)


@given(
    st.lists(st.integers(0, 3 * SCRATCH), min_size=1, max_size=3),
    st.one_of(st.integers(200, 2 * SCRATCH), st.integers(20_000, 100_000)),
)
def test_any_split_of_any_length_is_read(lengths: list[int], step: int) -> None:
    reader = ResponseReader()
    for length in lengths:
        body = bytes(range(256)) * (length // 256) + bytes(length % 256)
        (response,) = read(reader, sized(body, b"inference-header-content-LENGTH:5"), step)
        assert (response.status, response.json_size, bytes(response.body)) == (200, 5, body)
        assert response.keep_alive


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_chunked_answers(step: int) -> None:
    body = bytes(40_000)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:1], body[1:20_000], body[20_000:], b""))
    reader = ResponseReader()
    data = http(chunks, b"Transfer-Encoding: chunked", b"Inference-Header-Content-Length: 40000")
    for _ in range(2):
        (response,) = read(reader, data, step)
        assert (response.status, response.json_size, response.body) == (200, 40_000, body)


def test_connection_close_is_heeded() -> None:
    (response,) = read(ResponseReader(), sized(b"", b"Connection: Close"), 1000)
    assert not response.keep_alive
    (response,) = read(ResponseReader(), http(b"", b"Content-Length: 0", status=b"HTTP/1.0 200 OK"), 1000)
    assert not response.keep_alive


def test_bytes_behind_an_answer_end_the_connection() -> None:
    (response,) = read(ResponseReader(), http(b"abcmore", b"Content-Length: 3"), 1000)
    assert (response.body, response.keep_alive) == (b"abc", False)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        http(b"", b"Content-Length: -1"),
        http(b"", b"Content-Length: x"),
        http(b"zz\r\n", b"Transfer-Encoding: chunked"),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * SCRATCH,
    ],
)
def test_what_is_no_http_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(ResponseReader(), data, 100_000)


def answer(document: dict[str, object], data: bytes) -> Response:
    head = orjson.dumps(document)
    return Response(200, len(head), head + data, True)


def described(name: str, datatype: str, shape: list[int], size: int) -> dict[str, object]:
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}


def test_outputs_come_as_asked() -> None:
    response = answer({"outputs": [described("a", "INT8", [2], 2), described("b", "BYTES", [], 5)]}, b"ab\1\0\0\0c")
    first, second = outputs(response, ["b", "a"])
    assert first == WireTensor("b", "BYTES", (), b"\1\0\0\0c")
    assert second == WireTensor("a", "INT8", (2,), b"ab")


@pytest.mark.parametrize(
    ("outputs_described", "data", "sentence"),
    [
        ([], b"", "Triton left out the output a that was asked for"),
        (
            [described("a", "FP32", [3], 0)],
            b"",
            "Triton answered output a of datatype FP32 and shape [3] with 0 bytes",
        ),
        (
            [described("a", "BF16", [1], 4)],
            b"1234",
            "Triton answered output a of datatype BF16 and shape [1] with 4 bytes",
        ),
    ],
)
def test_broken_outputs_are_never_an_answer(
    outputs_described: list[dict[str, object]], data: bytes, sentence: str
) -> None:
    with pytest.raises(CallError) as caught:
        outputs(answer({"outputs": outputs_described}, data), ["a"])
    assert (caught.value.message, caught.value.code) == (sentence, Code.INTERNAL)


def test_lengths_have_to_add_up() -> None:
    with pytest.raises(ProtocolError):
        outputs(answer({"outputs": [described("a", "INT8", [2], 2)]}, b"abc"), ["a"])
