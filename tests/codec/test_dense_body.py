from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.codec import dense_body, native
from bridge.codec.dense_body import DenseNumbers, parse_dense
from bridge.codec.json_body import parse_object
from bridge.codec.rest_request import RestPredict, parse_predict_body, signature_name, tensors
from bridge.codec.tensor import Tensor
from bridge.errors import BridgeError
from bridge.serving.routes import TensorRoute

pytestmark = pytest.mark.skipif(native.LIBRARY is None, reason="the compiled codec was not built")

DTYPES = (1, 2, 3, 4, 6, 7, 9, 10, 14, 22, 23)
TOKENS = 200_000


@pytest.fixture(autouse=True)
def small_bodies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_body, "SMALLEST", 0)


def read(body: bytes) -> Any:
    """What the fast path makes of the value under `inputs`, None if it leaves the body to the exact path."""
    root = parse_dense(body)
    if root is None:
        return None
    value = root["inputs"]
    return value.values.tolist() if isinstance(value, DenseNumbers) else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2.5, -3]", [1.0, 2.5, -3.0]),
        ("[1,2]", [1, 2]),
        (" [ [ 1 , 2 ] ,\n[\t3,4 ]\r] ", [[1, 2], [3, 4]]),
        ("[[[1e3]]]", [[[1000.0]]]),
        ("[-0, 0.0]", [0.0, 0.0]),
        ('"text"', "text"),
        ("[9007199254740993]", [9007199254740993]),
    ],
)
def test_reads(text: str, expected: Any) -> None:
    assert read(f'{{"inputs": {text}, "other": [1]}}'.encode()) == expected


@pytest.mark.parametrize(
    "body",
    [
        '{"inputs": [true]}',
        '{"inputs": [null]}',
        '{"inputs": ["a"]}',
        '{"inputs": [1, "a"]}',
        '{"inputs": []}',
        '{"inputs": [[], []]}',
        '{"inputs": [[1], [1, 2]]}',
        '{"inputs": [[1, 2], [1]]}',
        '{"inputs": [1, [2]]}',
        '{"inputs": [[1], 2]}',
        '{"inputs": [[1], [[2]]]}',
        '{"inputs": [NaN]}',
        '{"inputs": [Infinity]}',
        '{"inputs": [-Infinity]}',
        '{"inputs": [1,]}',
        '{"inputs": [01]}',
        '{"inputs": [1.]}',
        '{"inputs": [.5]}',
        '{"inputs": [+1]}',
        '{"inputs": [1e]}',
        '{"inputs": [1e400]}',
        '{"inputs": [18446744073709551615]}',
        '{"inputs": [1] [2]}',
        '{"inputs": [1]',
        '{"inputs": [1',
        '{"inputs": [1]} x',
        '{"inputs": [1]}\0',
        '{"inputs": [1], "inputs": [2]}',
        '{"inputs": {"a": [1], "a": [2]}}',
        '{"inputs": {"a": 1}}',
        '{"inputs": {}}',
        '{"inputs": 1}',
        '{"inputs": {"a": {"b": [1]}}}',
        '{"in\\u0070uts": [1]}',
        '{"inputs": "a\\n"}',
        '{"ü": [1]}',
        '\ufeff{"inputs": [1]}',
        "[1]",
        "{}",
        "",
    ],
)
def test_leaves_to_the_exact_path(body: str) -> None:
    assert parse_dense(body.encode()) is None


def test_small_bodies_take_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_body, "SMALLEST", 20)
    assert parse_dense(b'{"inputs": [1]}') is None
    assert parse_dense(b'{"inputs": [1]    }') is None
    assert parse_dense(b'{"inputs": [1]      }') is not None


def exact(body: bytes) -> RestPredict:
    """The body as the exact path reads it."""
    root = parse_object(body)
    return RestPredict(signature_name(root), root)


def outcome(parse: Callable[[bytes], RestPredict], body: bytes, types: dict[str, int]) -> Any:
    """The format and the tensors of a body, or its error."""
    routes = [TensorRoute(alias, f"{alias}:0", dtype) for alias, dtype in sorted(types.items())]
    try:
        request = parse(body)
        return request.row, {alias: _plain(tensor) for alias, tensor in tensors(request, routes).items()}
    except BridgeError as error:
        return error.code, error.message


def _plain(tensor: Tensor) -> tuple[int, tuple[int, ...], bytes]:
    return tensor.dtype, tensor.shape, bytes(tensor.data)


def numbers() -> st.SearchStrategy[str]:
    integers = st.integers(-(2**64), 2**64).map(str)
    reals = st.floats(allow_nan=False, allow_infinity=False).map(repr)
    odd = st.sampled_from(
        ["NaN", "true", "null", '"1"', "-0", "1E2", "0.5e-3", "[1]", "1.0000000000000000000001", "[]"]
    )
    return st.one_of(st.integers(-300, 300).map(str), integers, reals, odd)


def nested(shape: list[int], token: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    if not shape:
        return token
    inner = nested(shape[1:], token)
    return st.lists(inner, min_size=shape[0], max_size=shape[0]).map(lambda items: f"[{', '.join(items)}]")


def lists() -> st.SearchStrategy[str]:
    plain = st.one_of(st.integers(-300, 300).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr))
    shapes = st.lists(st.integers(1, 3), min_size=0, max_size=3)
    return shapes.flatmap(lambda shape: st.one_of(nested(shape, plain), nested(shape, numbers())))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    value = draw(lists())
    if draw(st.booleans()):
        value = f'{{"a": {value}, "{draw(st.sampled_from(["b", "a", "c"]))}": {draw(lists())}}}'
    rest = draw(st.sampled_from(["", ', "signature_name": "s"', ', "signature_name": [1]', ', "instances": [1]']))
    end = draw(st.sampled_from(["}", "} ", "} x", ""]))
    return f'{{"{draw(st.sampled_from(["inputs", "instances"]))}": {value}{rest}{end}'.encode()


@settings(max_examples=1000)
@given(bodies(), st.sampled_from([("a",), ("a", "b")]), st.sampled_from(DTYPES))
@example(b'{"instances": [[1, 2], [3, 4]]}', ("a",), 4)
@example(b'{"instances": [300]}', ("a",), 4)
@example(b'{"inputs": {"a": [1e39], "b": [1]}}', ("a", "b"), 1)
def test_both_paths_give_the_same(body: bytes, aliases: tuple[str, ...], dtype: int) -> None:
    types = dict.fromkeys(aliases, dtype)
    assert outcome(parse_predict_body, body, types) == outcome(exact, body, types)


def test_numbers_are_read_to_the_same_bit() -> None:
    """The exact path's parser rounds doubles in its own way; so does the fast one."""
    source = random.Random(1)
    texts = [_token(source) for _ in range(TOKENS)]
    taken = 0
    for text in texts:
        body = f'{{"inputs": [{text}]}}'.encode()
        fast = parse_dense(body)
        if fast is None:
            continue
        taken += 1
        [value], [expected] = read(body), parse_object(body)["inputs"]
        assert type(value) is type(expected), text
        assert np.array(value).tobytes() == np.array(expected).tobytes(), text
    assert taken > TOKENS * 0.9


def _token(source: random.Random) -> str:
    sign, whole = source.choice(["", "-"]), source.randrange(10 ** source.randrange(0, 19))
    fraction = f".{'0' * source.choice([0, 0, 1, 5, 30])}{source.randrange(10 ** source.randrange(1, 30))}"
    power = f"{source.choice('eE')}{source.choice(['', '+', '-'])}{source.randrange(source.choice([5, 25, 280]))}"
    return sign + str(whole) + source.choice(["", fraction, fraction]) + source.choice(["", power, power])


def test_a_large_body_in_both_formats() -> None:
    values = np.random.default_rng(1).random((100, 1000), np.float32)
    for key in ("instances", "inputs"):
        body = json.dumps({"signature_name": "s", key: values.tolist()}).encode()
        request = parse_predict_body(body)
        assert request.dense is not None
        [tensor] = tensors(request, [TensorRoute("x", "x:0", 1)]).values()
        assert (tensor.shape, bytes(tensor.data)) == (values.shape, values.tobytes())
