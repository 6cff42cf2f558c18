from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec import native, predict
from bridge.codec.predict import (
    MalformedRequest,
    ModelSpec,
    PredictCall,
    decode_predict_request,
    encode_predict_response,
)
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import decode_tensor_proto, encode_tensor_proto
from model_repo_sync.protos.tensorflow import tensor_pb2
from model_repo_sync.protos.tensorflow_serving import model_pb2, predict_pb2
from tests.codec.test_tensor_proto import tensors


@pytest.fixture(params=["compiled", "plain"], autouse=True, scope="module")
def parts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds with the compiled part holds without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(native, "PREDICT", None)
        elif native.PREDICT is None:
            pytest.skip("the compiled part was not built")
        yield


INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = Tensor(1, (3,), b"\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\xa0\x40")


@st.composite
def specs(draw: st.DrawFn) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=draw(st.text(max_size=5)), signature_name=draw(st.text(max_size=5)))
    choice = draw(st.sampled_from(["version", "version_label", None]))
    if choice == "version":
        spec.version.value = draw(INT64)
    elif choice == "version_label":
        spec.version_label = draw(st.text(max_size=5))
    return spec


@st.composite
def requests(draw: st.DrawFn) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest(output_filter=draw(st.lists(st.text(max_size=5), max_size=3)))
    if draw(st.booleans()):
        request.model_spec.CopyFrom(draw(specs()))
    for alias, tensor in draw(st.dictionaries(st.text(max_size=5), tensors(), max_size=3)).items():
        request.inputs[alias].ParseFromString(encode_tensor_proto(tensor))
    if draw(st.booleans()):
        request.client_id = b"someone"
        request.request_options.max_cache_length = 7
        request.predict_streamed_options.split_dimensions["x"] = 1
    return request


def same(call: PredictCall, request: predict_pb2.PredictRequest) -> bool:
    """Whether the call says what protobuf's own parser says."""
    return (
        call.spec == (plain(request.model_spec) if request.HasField("model_spec") else None)
        and call.output_filter == tuple(request.output_filter)
        and call.inputs.keys() == dict(request.inputs).keys()
        and all(alike(data, request.inputs[alias]) for alias, data in call.inputs.items())
    )


def alike(found: memoryview | Tensor, message: tensor_pb2.TensorProto) -> bool:
    if isinstance(found, Tensor):
        return found == decode_tensor_proto(memoryview(message.SerializeToString()))
    return tensor_pb2.TensorProto.FromString(found) == message


def plain(spec: model_pb2.ModelSpec) -> ModelSpec:
    return ModelSpec(
        spec.name,
        spec.version.value if spec.HasField("version") else None,
        spec.version_label if spec.HasField("version_label") else None,
        spec.signature_name,
    )


@given(request=requests())
def test_decodes_as_protobuf_does(request: predict_pb2.PredictRequest) -> None:
    assert same(decode_predict_request(request.SerializeToString()), request)


@given(first=requests(), second=requests())
def test_concatenated_messages_merge(first: predict_pb2.PredictRequest, second: predict_pb2.PredictRequest) -> None:
    data = first.SerializeToString() + second.SerializeToString()
    assert same(decode_predict_request(data), predict_pb2.PredictRequest.FromString(data))


@given(data=st.binary(max_size=30))
def test_any_bytes_are_refused_as_protobuf_refuses_them(data: bytes) -> None:
    try:
        call = decode_predict_request(data)
        for tensor in call.inputs.values():
            tensor_pb2.TensorProto.FromString(tensor)
    except (MalformedRequest, DecodeError):
        with pytest.raises(DecodeError):
            predict_pb2.PredictRequest.FromString(data)
    else:
        assert same(call, predict_pb2.PredictRequest.FromString(data))


@pytest.mark.parametrize(
    ("data", "meaning"),
    [
        (b"", PredictCall(None, {}, ())),
        (b"\x0a\x00", PredictCall(ModelSpec(), {}, ())),
        (b"\x0a\x02\x12\x00", PredictCall(ModelSpec(version=0), {}, ())),
        (b"\x0a\x02\x22\x00", PredictCall(ModelSpec(label=""), {}, ())),
        (b"\x0a\x07\x12\x02\x08\x05\x22\x01a", PredictCall(ModelSpec(label="a"), {}, ())),
        (b"\x0a\x07\x22\x01a\x12\x02\x08\x05", PredictCall(ModelSpec(version=5), {}, ())),
        (b"\x0a\x03\x0a\x01m\x0a\x03\x1a\x01s", PredictCall(ModelSpec("m", signature="s"), {}, ())),
        (b"\x12\x00", PredictCall(None, {"": memoryview(b"")}, ())),
        (b"\x12\x07\x0a\x01x\x12\x02\x08\x01\x12\x07\x0a\x01x\x12\x02\x08\x03", None),
        (b"\x12\x0b\x0a\x01x\x12\x02\x08\x01\x12\x02\x12\x00", None),
        (b"\x63\x08\x01\x0b\x0c\x64\x1a\x01y", PredictCall(None, {}, ("y",))),
    ],
)
def test_forms_that_writers_seldom_use(data: bytes, meaning: PredictCall | None) -> None:
    call = decode_predict_request(data)
    assert same(call, predict_pb2.PredictRequest.FromString(data))
    assert meaning in (None, call)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0a\x03\x0a\x01\xff",
        b"\x1a\x01\xff",
        b"\x12\x03\x0a\x01\xff",
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        b"\x00",
        b"\x0e",
        b"\x63\x0a",
        b"\x63\x6c",
        b"\x6c",
        b"\x63" * 200,
        b"\x0d\x01",
    ],
)
def test_bytes_that_are_no_request(data: bytes) -> None:
    with pytest.raises(MalformedRequest, match="Malformed protobuf message: "):
        decode_predict_request(data)
    with pytest.raises(DecodeError):
        predict_pb2.PredictRequest.FromString(data)


def test_tensors_share_memory_with_the_request() -> None:
    request = predict_pb2.PredictRequest()
    request.inputs["x"].ParseFromString(encode_tensor_proto(FLOATS))
    data = request.SerializeToString()
    found = decode_predict_request(data).inputs["x"]
    tensor = found if isinstance(found, Tensor) else decode_tensor_proto(found)
    assert isinstance(tensor.data, memoryview)
    assert tensor.data.obj is data


@given(
    name=st.text(max_size=5),
    version=st.integers(0, 2**63 - 1),
    signature=st.text(max_size=5),
    outputs=st.dictionaries(st.text(max_size=5), tensors(), max_size=3),
    as_content=st.booleans(),
)
def test_responses_are_what_protobuf_would_write(
    name: str, version: int, signature: str, outputs: dict[str, Tensor], as_content: bool
) -> None:
    data = encode_predict_response(name, version, signature, list(outputs.items()), as_content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "LONG", 0)
        assert bytes(predict.predict_response(name, version, signature, list(outputs.items()), as_content)) == data
    response = predict_pb2.PredictResponse.FromString(data)
    assert plain(response.model_spec) == ModelSpec(name, version, None, signature)
    assert {
        alias: decode_tensor_proto(memoryview(proto.SerializeToString())) for alias, proto in response.outputs.items()
    } == outputs
    if len(outputs) < 2:
        assert response.SerializeToString() == data


def test_a_response_has_typed_values_unless_asked_otherwise() -> None:
    typed = predict_pb2.PredictResponse.FromString(encode_predict_response("m", 1, "s", [("y", FLOATS)]))
    assert list(typed.outputs["y"].float_val) == [1.0, 2.0, 5.0]
    content = predict_pb2.PredictResponse.FromString(encode_predict_response("m", 1, "s", [("y", FLOATS)], True))
    assert content.outputs["y"].tensor_content == FLOATS.data
