from __future__ import annotations

import struct

import orjson
import pytest

from bridge.codec.tensor import Tensor
from bridge.errors import BridgeError, Code
from bridge.serving.predict import RequestTensor, session_run
from bridge.triton.calls import ModelCall, WireTensor
from model_repo_sync.protos.tensorflow import tensor_pb2
from tests.serving import snapshots
from tests.serving.half_plus_two import answer

SIGNATURES = {item.name: item for item in snapshots.SIGNATURES}
DT_BOOL, DT_INT32, DT_INT64, DT_STRING = 10, 3, 9, 7


def floats(*values: float, shape: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(1, (len(values),) if shape is None else shape, struct.pack(f"<{len(values)}f", *values))


def other(dtype: int) -> Tensor:
    return Tensor(dtype, (0,), b"")


def run(name: str, inputs: dict[str, RequestTensor], output_filter: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """The outputs of a run, computed by the test double."""
    planned = session_run(SIGNATURES[name], inputs, output_filter)
    call = planned.call("m")
    return dict(planned.outputs([answer(call, output) for output in call.outputs]))


def call_of(name: str, inputs: dict[str, RequestTensor]) -> ModelCall:
    return session_run(SIGNATURES[name], inputs).call("m")


@pytest.mark.parametrize(
    ("name", "inputs", "output_filter", "message"),
    [
        (
            "serving_default",
            {},
            (),
            "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. Missing but required: {x}.",
        ),
        (
            "serving_default",
            {"unknown_key2": floats(1), "unknown_key1": other(DT_STRING)},
            (),
            "input size does not match signature: 2!=1 len({unknown_key1,unknown_key2}) != len({x}). "
            "Sent extra: {unknown_key1,unknown_key2}. Missing but required: {x}.",
        ),
        (
            "serving_default",
            {"z": floats(1)},
            (),
            "Signature input alias: x(feed name: x:0) not found in request and no default value provided. "
            "Inputs expected to be in the request {z}, or default input alias set: ",
        ),
        (
            "add_default",
            {"b": floats(1)},
            (),
            "Signature input alias: a(feed name: a:0) not found in request and no default value provided. "
            "Inputs expected to be in the request {b}, or default input alias set: b",
        ),
        (
            "add_default",
            {"a": floats(1), "c": floats(1)},
            (),
            "Inputs contains invalid name. Used request inputs: a, request input: a,c",
        ),
        (
            "add_default",
            {"a": floats(1), "b": floats(1), "c": floats(1)},
            (),
            "input size does not match signature: 3!=2 len({a,b,c}) != len({a,b}). Sent extra: {c}. "
            "Missing but required: {}.",
        ),
        (
            "serving_default",
            {"x": memoryview(tensor_pb2.TensorProto(dtype=1, tensor_content=b"123").SerializeToString())},
            (),
            "tensor parsing error: x",
        ),
        (
            "serving_default",
            {"x": other(DT_INT32)},
            ("output_filter",),
            "output tensor alias not found in signature: output_filter Outputs expected to be in the set {y}.",
        ),
        ("serving_default", {"x": floats(1)}, ("y", "y"), "duplicate output tensor alias: y"),
        ("serving_default", {"x": other(DT_BOOL)}, (), "Expects arg[0] to be float but bool is provided"),
        ("serving_default", {"x": other(DT_STRING)}, (), "Expects arg[0] to be float but string is provided"),
        ("text", {"s": floats(1)}, (), "Expects arg[0] to be string but float is provided"),
        ("add", {"a": other(DT_INT32), "b": floats(1)}, (), "Expects arg[1] to be float but int32 is provided"),
        ("add", {"a": other(DT_INT32), "b": other(DT_INT64)}, (), "Expects arg[0] to be float but int64 is provided"),
        ("twice_fed", {"p": floats(1), "q": other(DT_INT32)}, (), 'Endpoint "x:0" fed more than once.'),
    ],
)
def test_refuses(name: str, inputs: dict[str, RequestTensor], output_filter: tuple[str, ...], message: str) -> None:
    with pytest.raises(BridgeError) as caught:
        session_run(SIGNATURES[name], inputs, output_filter)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_ARGUMENT, message)


@pytest.mark.parametrize(
    ("shape", "values", "parameter"),
    [
        ((3,), (1.0, 2.0, 5.0), None),
        ((), (1.0,), []),
        ((1, 1), (1.0,), [1, 1]),
        ((0, 1), (), [0, 1]),
        ((2, 3, 4), tuple(map(float, range(24))), [2, 3, 4]),
        ((0,), (), None),
    ],
)
def test_any_shape_is_fed(shape: tuple[int, ...], values: tuple[float, ...], parameter: list[int] | None) -> None:
    inputs: dict[str, RequestTensor] = {"x": floats(*values, shape=shape)}
    call = call_of("serving_default", inputs)
    assert call.inputs[0].shape == (len(values),)
    assert orjson.loads(call.parameters.get("shapes", "{}")) == ({} if parameter is None else {"x:0": parameter})
    assert run("serving_default", inputs)["y"] == floats(*(value / 2 + 2 for value in values), shape=shape)


def test_defaults_fill_what_the_request_lacks() -> None:
    assert run("add_default", {"a": floats(2, shape=())})["sum"] == floats(7, shape=())


def test_a_request_without_inputs_carries_the_dummy_input() -> None:
    call = call_of("count", {})
    assert [(tensor.name, bytes(tensor.data)) for tensor in call.inputs] == [("bridge.noop", b"\0")]
    assert run("count", {})["output"] == Tensor(9, (), struct.pack("<q", 7))


def test_one_tensor_under_two_aliases_is_fetched_once() -> None:
    assert call_of("twice_fetched", {"x": floats(2)}).outputs == ("y:0",)
    assert run("twice_fetched", {"x": floats(2)}) == {"p": floats(3), "q": floats(3)}


def test_the_filter_decides_what_is_fetched() -> None:
    planned = session_run(SIGNATURES["text"], {"s": Tensor(7, (0,), b"")}, ("s_bytes",))
    assert [route.alias for route in planned.fetches] == ["s_bytes"]


def test_complex128_travels_as_pairs() -> None:
    pairs = struct.pack("<4d", 1, 2, 3, 4)
    call = call_of("complex", {"z": Tensor(18, (2,), pairs)})
    assert (call.inputs[0].datatype, call.inputs[0].shape) == ("FP64", (4,))
    assert run("complex", {"z": Tensor(18, (2,), pairs)})["z"] == Tensor(18, (2,), pairs)


def test_the_runner_knows_the_dtype_better_than_the_signature() -> None:
    assert run("misdeclared", {"x": floats(2)})["y"] == floats(3)


def test_a_missing_output_is_unknown() -> None:
    planned = session_run(SIGNATURES["serving_default"], {"x": floats(2)})
    with pytest.raises(BridgeError, match=r"^Predict internal error$") as caught:
        planned.outputs([WireTensor("other:0", "FP32", (0,), b"")])
    assert caught.value.code is Code.UNKNOWN
