from __future__ import annotations

import struct

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bridge.codec.string_tensor import frame, unframe
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_proto import TensorParseError, decode_tensor_proto, encode_tensor_proto
from bridge.codec.wire import MalformedRequest
from bridge.errors import Internal
from model_repo_sync.protos.tensorflow import tensor_pb2
from model_repo_sync.runner.tensorflow_engine.dtypes import DT_STRING, DTYPES
from tests.codec.conftest import TensorFlowOracle

CANONICAL = {
    "bool": lambda byte: byte & 1,
    "uint4": lambda byte: byte & 15,
    "int4": lambda byte: byte & 7,
}
"""The bytes that every reader agrees on where not every byte is a value (numpy keeps no sign bits in an int4)."""
INT32 = st.integers(-(2**31), 2**31 - 1)
SHAPES = st.lists(st.integers(0, 3), max_size=4)
PARTS = {"float": "<f4", "complex64": "<f4", "double": "<f8", "complex128": "<f8"}
NO_NDARRAY = {"float8_e5m2", "float8_e4m3fn"}
"""Dtypes whose typed values tf.make_ndarray cannot read."""
WRITTEN = {"float", "double", "int32", "uint8", "int16", "int8", "complex64", "int64", "bool", "complex128", "half"}
"""Dtypes whose arrays a client hands to tf.make_tensor_proto."""
NUMERIC = sorted(set(DTYPES) - {DT_STRING})


@st.composite
def protos(draw: st.DrawFn) -> tensor_pb2.TensorProto:
    """TensorProtos as clients may send them: any dtype, any typed field, contents of right and wrong length."""
    proto = tensor_pb2.TensorProto(dtype=draw(st.sampled_from([*DTYPES, 0, 101])))
    if draw(st.booleans()):
        proto.tensor_shape.SetInParent()
        for size in draw(SHAPES):
            proto.tensor_shape.dim.add(size=size, name=draw(st.sampled_from(["", "batch"])))
        proto.tensor_shape.unknown_rank = draw(st.booleans())
    if draw(st.integers(0, 3)) == 0:
        proto.tensor_content = draw(st.binary(max_size=40))
    proto.float_val.extend(draw(st.lists(st.floats(width=32), max_size=4)))
    proto.double_val.extend(draw(st.lists(st.floats(), max_size=4)))
    proto.int_val.extend(draw(st.lists(INT32, max_size=6)))
    proto.string_val.extend(draw(st.lists(st.binary(max_size=4), max_size=4)))
    proto.scomplex_val.extend(draw(st.lists(st.floats(width=32), max_size=5)))
    proto.int64_val.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)))
    proto.bool_val.extend(draw(st.lists(st.booleans(), max_size=4)))
    proto.dcomplex_val.extend(draw(st.lists(st.floats(), max_size=5)))
    proto.half_val.extend(draw(st.lists(INT32, max_size=4)))
    proto.uint32_val.extend(draw(st.lists(st.integers(0, 2**32 - 1), max_size=4)))
    proto.uint64_val.extend(draw(st.lists(st.integers(0, 2**64 - 1), max_size=4)))
    proto.float8_val = draw(st.binary(max_size=4))
    return proto


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(SHAPES))
    count = int(np.prod(shape))
    if dtype == DT_STRING:
        return Tensor(dtype, shape, frame(draw(st.lists(st.binary(max_size=200), min_size=count, max_size=count))))
    size = count * DTYPES[dtype].itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    canonical = CANONICAL.get(DTYPES[dtype].name)
    if canonical:
        data = bytes(map(canonical, data))
    return Tensor(dtype, shape, data)


def decoded(proto: tensor_pb2.TensorProto) -> Tensor:
    return decode_tensor_proto(memoryview(proto.SerializeToString()))


@given(proto=protos())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_decodes_what_tensorflow_decodes(tensorflow: TensorFlowOracle, proto: tensor_pb2.TensorProto) -> None:
    expected = tensorflow.parse(proto.SerializeToString())
    if "error" in expected:
        with pytest.raises(TensorParseError):
            decoded(proto)
        return
    tensor = decoded(proto)
    assert list(tensor.shape) == expected["shape"]
    if tensor.dtype == DT_STRING:
        assert [item.hex() for item in unframe(tensor.data)] == expected["strings"]
    else:
        assert bytes(tensor.data).hex() == expected["data"]
    if expected["serialized"] is not None:
        as_content = tensor.dtype != DT_STRING  # SerializeTensor writes strings as typed values
        assert encode_tensor_proto(tensor, as_content).hex() == expected["serialized"]


@given(tensor=tensors())
@settings(max_examples=200, deadline=None)
def test_clients_read_what_was_encoded(tensorflow: TensorFlowOracle, tensor: Tensor) -> None:
    assume(DTYPES[tensor.dtype].name not in NO_NDARRAY and not has_nan(tensor))
    answer = tensorflow.ndarray(encode_tensor_proto(tensor))
    assert answer["shape"] == list(tensor.shape)
    if tensor.dtype == DT_STRING:
        assert answer["strings"] == [item.hex() for item in unframe(tensor.data)]
    else:
        assert answer["data"] == bytes(tensor.data).hex()


def has_nan(tensor: Tensor) -> bool:
    """Whether Python clients may see other bits: they read typed values by way of double."""
    form = PARTS.get(DTYPES[tensor.dtype].name)
    return form is not None and bool(np.isnan(np.frombuffer(tensor.data, form)).any())


@given(tensor=tensors())
@settings(max_examples=100, deadline=None)
def test_reads_what_clients_write(tensorflow: TensorFlowOracle, tensor: Tensor) -> None:
    assume(DTYPES[tensor.dtype].name in WRITTEN and not has_nan(tensor))
    message = tensorflow.tensor_proto(tensor.dtype, tensor.shape, bytes(tensor.data))
    assert decode_tensor_proto(memoryview(message)) == tensor


@given(tensor=tensors(), as_content=st.booleans())
def test_encoding_is_that_of_the_protobuf_library(tensor: Tensor, as_content: bool) -> None:
    data = encode_tensor_proto(tensor, as_content)
    parsed = tensor_pb2.TensorProto.FromString(data)
    assert parsed.SerializeToString() == data
    assert parsed.HasField("tensor_shape")
    assert decoded(parsed) == tensor
    assert bool(parsed.tensor_content) == (as_content and bool(tensor.data))


@given(proto=protos())
def test_unpacked_fields_in_any_order_mean_the_same(proto: tensor_pb2.TensorProto) -> None:
    packed = proto.SerializeToString()
    unpacked = unpack(proto)
    assert tensor_pb2.TensorProto.FromString(unpacked).SerializeToString() == packed
    assert outcome(unpacked) == outcome(packed)


def unpack(proto: tensor_pb2.TensorProto) -> bytes:
    """The message with its numeric lists one by one and last fields first."""
    numbers = {"float_val": "<f", "double_val": "<d", "scomplex_val": "<f", "dcomplex_val": "<d"}
    parts = []
    for field, value in reversed(proto.ListFields()):
        if field.name in numbers:
            tag = bytes([field.number << 3 | (5 if numbers[field.name] == "<f" else 1)])
            parts += [tag + struct.pack(numbers[field.name], item) for item in value]
        else:
            part = tensor_pb2.TensorProto()
            if hasattr(value, "extend"):
                getattr(part, field.name).extend(value)
            elif field.name == "tensor_shape":
                part.tensor_shape.CopyFrom(value)
            else:
                setattr(part, field.name, value)
            parts.append(part.SerializeToString())
    return b"".join(parts)


def outcome(data: bytes) -> Tensor | str:
    try:
        return decode_tensor_proto(memoryview(data))
    except TensorParseError as error:
        return error.message


@pytest.mark.parametrize("dtype", NUMERIC)
def test_short_and_absent_typed_values(dtype: int) -> None:
    """The last value is repeated, no value means zeros, surplus ones are ignored."""
    width = DTYPES[dtype].itemsize
    one = Tensor(dtype, (1,), b"\x01" * width)
    if DTYPES[dtype].name == "bool":
        one = Tensor(dtype, (1,), b"\x01")
    typed = encode_tensor_proto(one)
    shape = tensor_pb2.TensorProto(dtype=dtype)
    shape.tensor_shape.dim.add(size=2)
    assert decode_tensor_proto(memoryview(typed + shape.SerializeToString())) == Tensor(
        dtype, (1, 2), bytes(one.data) * 2
    )
    assert decoded(shape) == Tensor(dtype, (2,), bytes(2 * width))
    scalar = tensor_pb2.TensorProto.FromString(typed + typed)
    scalar.ClearField("tensor_shape")
    assert decoded(scalar) == Tensor(dtype, (), one.data)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"), [(300, 4, b"\x2c"), (-1, 4, b"\xff"), (200, 6, b"\xc8"), (70000, 17, b"\x70\x11")]
)
def test_integers_wrap_around(value: int, dtype: int, expected: bytes) -> None:
    assert decoded(tensor_pb2.TensorProto(dtype=dtype, int_val=[value])).data == expected


def test_numeric_bytes_are_not_copied() -> None:
    data = np.arange(6, dtype=np.float32).tobytes()
    for as_content in (False, True):
        message = encode_tensor_proto(Tensor(1, (2, 3), data), as_content)
        tensor = decode_tensor_proto(memoryview(message))
        assert isinstance(tensor.data, memoryview)
        assert tensor.data.obj is message
        assert tensor == Tensor(1, (2, 3), data)


@pytest.mark.parametrize(
    ("proto", "reason"),
    [
        ({}, "unknown dtype enum 0"),
        ({"dtype": 20}, "resource"),
        ({"dtype": 21}, "variant"),
        ({"dtype": 101}, "float_ref"),
        ({"dtype": 10, "tensor_content": b"\x02"}, "no booleans"),
        ({"dtype": 1, "tensor_content": b"123"}, "3 bytes where 4 are needed"),
        ({"dtype": 7, "tensor_content": b"\x02a"}, "do not add up"),
        ({"dtype": 7, "tensor_content": b"\x81"}, "lengths of less than 1 strings"),
    ],
)
def test_refuses_what_tensorflow_refuses(proto: dict[str, object], reason: str) -> None:
    with pytest.raises(TensorParseError, match=reason):
        decoded(tensor_pb2.TensorProto(**proto))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ([-1], "negative size -1"),
        ([2**40, 2**40, 0], "more elements than fit in 64 bits"),
        ([1] * 255, "255 dimensions, more than 254"),
        ([2**32], "17179869184 bytes of repeated values, more than 2147483647"),
    ],
)
@pytest.mark.parametrize("dtype", [1, DT_STRING])
def test_refuses_shapes_that_cannot_be(sizes: list[int], reason: str, dtype: int) -> None:
    proto = tensor_pb2.TensorProto(dtype=dtype)
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    with pytest.raises(TensorParseError, match=reason):
        decoded(proto)


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x22\x05abc",
        b"\x2a\x03abc",
        b"\x08\x03\x3a\x01\x80",
        b"\x12\x05\x12\x03\x12\x01\xff",
        b"\x00\x00",
        b"\x0f",
    ],
)
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(DecodeError):
        tensor_pb2.TensorProto.FromString(data)
    with pytest.raises(MalformedRequest):
        decode_tensor_proto(memoryview(data))


@pytest.mark.parametrize(
    "tensor",
    [Tensor(1, (2,), b"1234"), Tensor(7, (2,), frame([b"a"])), Tensor(7, (1,), b"\x05\x00\x00\x00a")],
)
def test_data_that_does_not_fit_its_shape_is_not_encoded(tensor: Tensor) -> None:
    with pytest.raises(Internal):
        encode_tensor_proto(tensor)
