from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec.examples import (
    Examples,
    ExamplesCall,
    InferenceTask,
    decode_examples_request,
    decode_multi_inference_request,
    encode_examples_request,
)
from bridge.codec.model_spec import MODELS_FIRST, ModelSpec
from bridge.codec.string_tensor import unframe
from bridge.codec.wire import MalformedRequest
from model_repo_sync.protos.tensorflow.example_pb2 import Example
from model_repo_sync.protos.tensorflow_serving.classification_pb2 import ClassificationRequest
from model_repo_sync.protos.tensorflow_serving.inference_pb2 import MultiInferenceRequest
from model_repo_sync.protos.tensorflow_serving.input_pb2 import Input


def example(**features: float) -> Any:
    message = Example()
    for name, value in features.items():
        message.features.feature[name].float_list.value.append(value)
    return message


def elements(data: bytes) -> list[bytes]:
    """The elements of the tensor that a request feeds."""
    return unframe(decode_examples_request(data).examples.tensor().data)


def request(**kind: Any) -> bytes:
    return ClassificationRequest(input=Input(**kind)).SerializeToString()


@pytest.mark.parametrize(
    "data",
    [
        ClassificationRequest().SerializeToString(),
        ClassificationRequest(input={}).SerializeToString(),
        request(example_list={}),
        request(example_list_with_context={}),
        request(example_list_with_context={"context": example(x=1.0)}),
    ],
)
def test_empty_inputs(data: bytes) -> None:
    assert not decode_examples_request(data).examples.items


def test_examples_stay_as_they_came() -> None:
    items = [example(x=1.0), Example(), example(y=2.0)]
    data = request(example_list={"examples": items})
    assert elements(data) == [item.SerializeToString() for item in items]


def test_unknown_fields_of_an_example_are_kept() -> None:
    odd = b"\x0a\x00\xfa\x01\x03abc"
    data = b"\x12" + bytes([len(odd) + 4]) + b"\x0a" + bytes([len(odd) + 2]) + b"\x0a" + bytes([len(odd)]) + odd
    assert elements(data) == [odd]


def test_the_context_is_merged_into_each_example() -> None:
    data = request(
        example_list_with_context={"examples": [Example(), example(x=5.0)], "context": example(x=1.0, y=2.0)}
    )
    merged = [Example.FromString(item) for item in elements(data)]
    assert merged == [example(x=1.0, y=2.0), example(x=5.0, y=2.0)]


def test_the_last_kind_of_input_wins_and_equal_kinds_merge() -> None:
    plain = Input(example_list={"examples": [example(x=1.0)]}).SerializeToString()
    more = Input(example_list={"examples": [example(x=2.0)]}).SerializeToString()
    context = Input(example_list_with_context={"context": example(y=3.0)}).SerializeToString()
    for parts in ([plain, more], [plain, context], [context, plain], [context, context, plain, more]):
        data = b"".join(b"\x12" + bytes([len(part)]) + part for part in parts)
        expected = ClassificationRequest.FromString(data).input
        kind = getattr(expected, expected.WhichOneof("kind"))
        examples = decode_examples_request(data).examples
        assert [Example.FromString(bytes(item)) for item in examples.items] == list(kind.examples)
        assert (examples.context is not None) == (kind.DESCRIPTOR.name == "ExampleListWithContext")


def test_malformed_inputs_are_told_apart_from_malformed_requests() -> None:
    with pytest.raises(MalformedRequest, match=r"^Error parsing serialized input\.$"):
        decode_examples_request(b"\x12\x02\x0a\x05")
    with pytest.raises(MalformedRequest, match=r"^Malformed protobuf message"):
        decode_examples_request(b"\x12\x05")


def test_multi_inference_requests() -> None:
    message = MultiInferenceRequest(input={"example_list": {"examples": [example(x=1.0)]}})
    message.tasks.add(method_name="m").model_spec.name = "a"
    message.tasks.add().model_spec.version.value = 0
    message.tasks.add()
    call = decode_multi_inference_request(message.SerializeToString())
    assert call.tasks == [
        InferenceTask(ModelSpec("a"), "m"),
        InferenceTask(ModelSpec("", 0), ""),
        InferenceTask(ModelSpec(), ""),
    ]
    assert [bytes(item) for item in call.examples.items] == [example(x=1.0).SerializeToString()]


specs = st.builds(
    ModelSpec,
    st.text(),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.none(),
    st.text(),
    st.just(MODELS_FIRST),
) | st.builds(ModelSpec, st.text(), st.none(), st.text(), st.text(), st.just(MODELS_FIRST))


@given(specs, st.lists(st.binary(), min_size=1), st.one_of(st.none(), st.binary()))
def test_requests_of_rest_read_back(spec: ModelSpec, items: list[bytes], context: bytes | None) -> None:
    data = encode_examples_request(spec, Examples(items, context))
    call = decode_examples_request(data)
    assert call == ExamplesCall(spec, Examples(items, context))
