from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from bridge.codec.wire import MalformedRequest
from bridge.kserve.messages import InferResponse, infer_request, infer_response

contents = st.lists(st.binary(max_size=300), max_size=4)


def request(raw: list[bytes], **fields: Any) -> Any:
    inputs = [{"name": f"x{number}", "datatype": "UINT8", "shape": [len(item)]} for number, item in enumerate(raw)]
    return service_pb2.ModelInferRequest(model_name="half", inputs=inputs, raw_input_contents=raw, **fields)


@given(contents, st.text(max_size=5))
def test_requests_under_another_name(raw: list[bytes], id: str) -> None:
    message = request(raw, id=id, parameters={"a": {"int64_param": 7}})
    read = infer_request(message.SerializeToString())
    assert [bytes(item) for item in read.raw] == raw
    assert (read.head.model_name, list(read.head.raw_input_contents)) == ("half", [])
    renamed = service_pb2.ModelInferRequest.FromString(read.named("mm.half.1"))
    message.model_name = "mm.half.1"
    assert renamed == message
    assert read.head.model_name == "half"


@given(contents)
def test_responses(raw: list[bytes]) -> None:
    outputs = [{"name": f"y{number}"} for number in range(len(raw))]
    message = service_pb2.ModelInferResponse(model_name="half", outputs=outputs, raw_output_contents=raw)
    read = infer_response(message.SerializeToString())
    assert service_pb2.ModelInferResponse.FromString(read.serialized()) == message
    streamed = service_pb2.ModelStreamInferResponse.FromString(read.serialized_for_stream())
    assert streamed == service_pb2.ModelStreamInferResponse(infer_response=message)


def test_contents_may_be_any_buffer() -> None:
    floats = memoryview(bytes(8)).cast("f")
    response = InferResponse(service_pb2.ModelInferResponse(), [floats, bytearray(b"ab"), b""])
    for message in (
        service_pb2.ModelInferResponse.FromString(response.serialized()),
        service_pb2.ModelStreamInferResponse.FromString(response.serialized_for_stream()).infer_response,
    ):
        assert list(message.raw_output_contents) == [bytes(8), b"ab", b""]


def test_fields_that_nobody_knows_are_left_out() -> None:
    read = infer_request(request([b"a"]).SerializeToString() + b"\xf8\x01\x05\xfa\x01\x02ab")
    assert service_pb2.ModelInferRequest.FromString(read.named("n")).inputs[0].name == "x0"


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x0a\x01\xff", b"\xff", b"\x2a\x03\x0a\x09a"])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(MalformedRequest):
        infer_request(data)
