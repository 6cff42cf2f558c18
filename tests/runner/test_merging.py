from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from model_repo_sync.runner.tensorflow_engine.dtypes import BY_NAME
from model_repo_sync.runner.tensorflow_engine.errors import StatusError
from model_repo_sync.runner.tensorflow_engine.feed import Array
from model_repo_sync.runner.tensorflow_engine.merging import Value, merge, row_count, split


def value(data: Any, dtype: str = "float") -> Value:
    return Value(BY_NAME[dtype], np.array(data, BY_NAME[dtype].numpy))


def zeros(*shape: int, dtype: str = "float") -> Value:
    return Value(BY_NAME[dtype], np.zeros(shape, BY_NAME[dtype].numpy))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "Batching Run() must have at least one input tensor"),
        ([zeros()], "Batching Run() input tensors must have at least one dimension"),
        ([zeros(1), zeros()], "Batching Run() input tensors must have at least one dimension"),
        ([zeros(2, dtype="complex128")], "Batching Run() input tensors must have at least one dimension"),
        ([zeros(1, 3), zeros(2, 3)], "Batching Run() input tensors must have equal 0th-dimension size"),
    ],
)
def test_requests_without_rows_are_refused(inputs: Sequence[Value], text: str) -> None:
    with pytest.raises(StatusError) as refused:
        row_count({f"x:{number}": tensor for number, tensor in enumerate(inputs)})
    assert (refused.value.code, refused.value.text) == (3, text)


def test_rows_are_counted_in_dimension_0() -> None:
    assert row_count({"x:0": zeros(2, 7), "y:0": zeros(2)}) == 2
    assert row_count({"x:0": zeros(0, 7)}) == 0


def joined(arrays: Sequence[Array]) -> list[Any]:
    result: list[Any] = np.concatenate(arrays).tolist()
    return result


def test_rows_are_put_one_after_the_other() -> None:
    assert joined(merge("x:0", [value([[1], [2]]), value([[3]])], 3, pad=False)) == [[1], [2], [3]]


def test_missing_rows_are_the_first_row_of_the_last_request() -> None:
    values = [value([[1], [2]]), value([[3], [4]]), zeros(0, 1)]
    assert joined(merge("x:0", values, 6, pad=False)) == [[1], [2], [3], [4], [3], [3]]


def test_strings_keep_every_byte() -> None:
    values = [value([b"a\0", b"\xff\0\0"], "string"), value([b"", b"b\0"], "string")]
    assert joined(merge("x:0", values, 5, pad=False)) == [b"a\0", b"\xff\0\0", b"", b"b\0", b""]


SHAPES = (
    "Tensors with name 'x:0' from different tasks have different shapes and padding is turned off. Set "
    "pad_variable_length_inputs to true, or ensure that all tensors with the same name have equal dimensions starting "
    "with the first dim."
)
MISFITS: list[tuple[Sequence[Value], bool, int, str]] = [
    ([zeros(1, 2), zeros(1, 3)], False, 9, SHAPES),
    ([zeros(1, 2), zeros(1, 2, 1)], False, 9, SHAPES),
    ([zeros(1), zeros(1, 1)], False, 9, SHAPES),
    ([zeros(1, 0), zeros(1, 2)], True, 3, "Got empty tensor in batch of non-empty tensors."),
    ([zeros(*[1] * 7)], True, 3, "Only tensors with rank from 1 to 6 can be padded."),
    (
        [zeros(1, 2), zeros(1)],
        True,
        9,
        "Tensors with name 'x:0' from different tasks have different ranks, and padding adds no dimensions.",
    ),
]


@pytest.mark.parametrize(("values", "pad", "code", "text"), MISFITS)
def test_shapes_that_do_not_fit(values: Sequence[Value], pad: bool, code: int, text: str) -> None:
    with pytest.raises(StatusError) as refused:
        merge("x:0", values, 2, pad=pad)
    assert (refused.value.code, refused.value.text) == (code, text)


PADDED: list[tuple[Sequence[Value], list[Any]]] = [
    (
        [value([[[1, 2], [3, 4]]]), value([[[5] * 3] * 3])],
        [[[1, 2, 1], [3, 4, 1], [1, 1, 1]], [[5] * 3] * 3],
    ),
    ([value([[1, 2]]), value([[3]]), value([[4, 5]])], [[1, 2], [3, 3], [4, 5]]),
    ([value([[1]]), value([[2]])], [[1], [2]]),
    ([zeros(0, 2), value([[1, 2, 3]])], [[1, 2, 3]]),
    ([value([[b"a\0"]], "string"), value([[b"b", b"c"]], "string")], [[b"a\0", b"a\0"], [b"b", b"c"]]),
    (
        [value([[[1, 2]]], "complex128"), value([[[3, 4], [5, 6]]], "complex128")],
        [[[1, 2], [1, 2]], [[3, 4], [5, 6]]],
    ),
]


@pytest.mark.parametrize(("values", "expected"), PADDED)
def test_variable_lengths_are_padded_with_the_first_element(values: Sequence[Value], expected: list[Any]) -> None:
    assert joined(merge("x:0", values, len(expected), pad=True)) == expected


def test_padding_to_a_size_happens_after_that_to_a_shape() -> None:
    assert joined(merge("x:0", [value([[1]]), value([[2, 3]])], 3, pad=True)) == [[1, 1], [2, 3], [2, 3]]


def test_outputs_are_split_and_padding_is_left_out() -> None:
    output = np.arange(10).reshape(5, 2)
    assert [part.tolist() for part in split(output, 5, [1, 0, 2])] == [[[0, 1]], [], [[2, 3], [4, 5]]]
    assert all(np.shares_memory(part, output) for part in split(output, 5, [1, 2]))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((), "Batched output tensor has 0 dimensions"),
        (
            (3, 2),
            "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input "
            "tensors",
        ),
    ],
)
def test_outputs_without_a_row_for_each_row(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(StatusError) as refused:
        split(np.zeros(shape), 2, [1, 1])
    assert (refused.value.code, refused.value.text) == (9, text)
