"""The runner behind a real tritonserver answers bit for bit what TensorFlow's own session answers."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable, Sequence

import pytest

from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES, DType
from tests.runner.served import Served, floats, int32, int64s, strings
from tests.support.savedmodels import Array

pytestmark = pytest.mark.integration

Serve = Callable[..., Served]

SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (5,), (2, 3), (2, 1, 3, 1), (0,), (0, 3), (2, 0, 4))

HARD_STRINGS = (b"", b"plain", b"\x00", b"a\x00b\x00", b"\xff\xfe\x00\xc3", "Straße".encode(), b"x" * 22, b"y" * 23)


def content(dtype: DType, elements: int) -> bytes | list[bytes]:
    """Bytes that are a value of every element: any bit pattern is one, save for bool and four-bit types."""
    generator = random.Random(dtype.number)
    if dtype.is_string:
        return list(itertools.islice(itertools.cycle(HARD_STRINGS), elements))
    data = generator.randbytes(elements * dtype.itemsize)
    if dtype.name == "bool":
        return bytes(byte & 1 for byte in data)
    if dtype.name == "uint4":
        return bytes(byte & 15 for byte in data)
    if dtype.name == "int4":
        return struct.pack(f"{elements}b", *((byte & 15) - 8 for byte in data))
    return data


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_every_dtype_of_every_rank(serve: Serve, dtype: DType) -> None:
    model = serve("dtypes")
    for shape in SHAPES:
        fed = Array(dtype.number, shape, content(dtype, math.prod(shape)))
        [answer] = model.equals_tensorflow({f"in_{dtype.name}:0": fed}, [f"out_{dtype.name}:0"])
        assert answer == fed


def test_all_dtypes_in_one_request(serve: Serve) -> None:
    feeds = {f"in_{dtype.name}:0": Array(dtype.number, (2, 2), content(dtype, 4)) for dtype in DTYPES.values()}
    serve("dtypes").equals_tensorflow(feeds, [f"out_{dtype.name}:0" for dtype in DTYPES.values()])


def test_work_on_several_dtypes(serve: Serve) -> None:
    model = serve("arithmetic")
    rows = 33
    generator = random.Random(1)
    feeds = {
        "serving_default_features:0": floats(*(generator.gauss(0, 1) for _ in range(16 * rows)), shape=(rows, 16)),
        "serving_default_counts:0": int64s(2**62, -5, 7),
        "serving_default_words:0": strings(*HARD_STRINGS, shape=(2, 4)),
        "serving_default_phases:0": Array(18, (2,), struct.pack("<4d", 0.5, -1.0, 3.0, 4.0)),
    }
    model.equals_tensorflow(feeds, [f"StatefulPartitionedCall:{index}" for index in range(5)])


def test_any_subset_of_outputs_in_any_order(serve: Serve) -> None:
    model = serve("half_plus_two")
    feeds = {"x:0": floats(1, 2, 5), "x2:0": floats(7)}
    for fetches in (["y:0"], ["y2:0", "y:0"], ["y3:0", "y2:0", "y:0"]):
        model.equals_tensorflow(feeds, fetches)


def test_half_plus_two(serve: Serve) -> None:
    [answer] = serve("half_plus_two").call({"x:0": floats(1, 2, 5)}, ["y:0"])
    assert answer == floats(2.5, 3, 4.5)


@pytest.mark.parametrize(
    "shape", [(3,), (), (2, 3, 4), (0, 1), (1,), (1, 1), (0,), (7, 1)], ids=lambda shape: str(list(shape))
)
@pytest.mark.parametrize(
    ("feed", "fetches"),
    [("one:0", ["doubled:0"]), ("any_rank:0", ["doubled_any:0", "shape:0"])],
    ids=["[1]", "unknown"],
)
def test_shapes_other_than_declared(serve: Serve, feed: str, fetches: Sequence[str], shape: tuple[int, ...]) -> None:
    fed = floats(*range(math.prod(shape)), shape=shape)
    [doubled, *_] = serve("declared_one").equals_tensorflow({feed: fed}, fetches)
    assert doubled.shape == shape


def test_strings_tables_and_assets(serve: Serve) -> None:
    model = serve("strings")
    outputs = [f"StatefulPartitionedCall_2:{index}" for index in range(3)]
    words = strings(b"apple", b"b\xff\xfe", "naïve".encode(), b"apple\x00", *HARD_STRINGS)
    ids, _, echoed = model.equals_tensorflow({"serving_default_words:0": words}, outputs)
    assert echoed == words
    assert isinstance(ids.data, bytes)
    assert struct.unpack_from("<3q", ids.data) == (0, 1, 2)


def test_a_table_keeps_the_strings_of_a_request(serve: Serve) -> None:
    model = serve("strings")
    kept = strings(b"short", b"\xff" * 5000, b"\x00" * 30)
    model.call({"note_keys:0": int64s(1, 2, 3), "note_values:0": kept}, ["StatefulPartitionedCall:0"])
    for size in range(1, 60):
        model.call({"serving_default_words:0": strings(b"z" * 100 * size)}, ["StatefulPartitionedCall_2:1"])
    answer = model.call({"recall_keys:0": int64s(2, 9, 1, 3)}, ["StatefulPartitionedCall_1:0"])
    assert answer == [strings(b"\xff" * 5000, b"none", b"short", b"\x00" * 30)]


def test_signatures_share_variables(serve: Serve) -> None:
    model = serve("shared_state")
    state = ["StatefulPartitionedCall:1", "StatefulPartitionedCall:0"]
    assert model.call({}, state) == [floats(0, 0), strings(b"", shape=())]
    value, name = floats(1, 2, 3, 4, shape=(2, 2)), strings(b"\x00state\xff" * 20, shape=())
    model.call({"set_value:0": value, "set_name:0": name}, ["StatefulPartitionedCall_1:0"])
    assert model.call({}, state) == [value, name]


def test_reference_variables_without_inputs(serve: Serve) -> None:
    model = serve("counter")

    def value(fetch: str, **feeds: Array) -> Array:
        [answer] = model.call({f"{name}:0": array for name, array in feeds.items()}, [fetch])
        return answer

    assert value("counter:0") == floats(0, shape=())
    assert value("incr_counter_op:0") == floats(1, shape=())
    assert value("incr_counter_op:0", delta=floats(2.5, shape=())) == floats(3.5, shape=())
    assert value("counter:0") == floats(3.5, shape=())
    assert value("reset_counter_op:0") == floats(0, shape=())
    assert value("counter:0") == floats(0, shape=())


def test_a_wrong_dtype_in_tensor_info_does_no_harm(serve: Serve) -> None:
    serve("wrong_tensor_info").equals_tensorflow({"x:0": floats(1, 2)}, ["y:0"])


def test_one_tensor_asked_once_serves_two_aliases(serve: Serve) -> None:
    model = serve("dtypes")
    assert model.call({"in_float:0": floats(4)}, ["out_float:0", "out_float:0"]) == [floats(4), floats(4)]


def example(**features: Sequence[float]) -> bytes:
    """A serialized tensorflow.Example of float features, shorter than 128 bytes in every part."""

    def field(number: int, data: bytes) -> bytes:
        return bytes((number << 3 | 2, len(data))) + data

    entries = b""
    for name, values in features.items():
        float_list = field(1, struct.pack(f"<{len(values)}f", *values))
        entries += field(1, field(1, name.encode()) + field(2, field(2, float_list)))
    return field(1, entries)


def test_examples_are_parsed(serve: Serve) -> None:
    model = serve("half_plus_two")
    examples = strings(example(x=[1.0]), example(x=[2.0], x2=[5.0]))
    answer = model.equals_tensorflow({"tf_example:0": examples}, ["y:0", "y3:0"])
    assert answer == [floats(2.5, 3, shape=(2, 1)), floats(3, 5.5, shape=(2, 1))]


FAILURES = {
    "assert": ("failures", "serving_default", {"x": floats(1, 99)}),
    "reshape": ("failures", "reshape", {"x": floats(1, 2), "shape": Array(3, (1,), struct.pack("<i", 3))}),
    "gather": ("failures", "gather", {"x": floats(1, 2), "index": int32(9)}),
    "unfed placeholder": ("half_plus_two", "serving_default", {}),
    "no example": ("half_plus_two", "regress_x_to_y", {"inputs": strings(b"not an example")}),
    "missing feature": ("half_plus_two", "regress_x_to_y", {"inputs": strings(example(x2=[1.0]))}),
}


@pytest.mark.parametrize("case", FAILURES)
def test_errors_keep_code_and_text(serve: Serve, case: str) -> None:
    kind, signature, aliased = FAILURES[case]
    model = serve(kind)
    model.fails_as_tensorflow(*model.named(signature, aliased))
