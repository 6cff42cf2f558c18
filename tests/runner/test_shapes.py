from __future__ import annotations

import json
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine import shapes
from model_repo_sync.runner.tensorflow_engine.errors import StatusError


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", {}),
        ("{}", {}),
        (json.dumps({"other": 1}), {}),
        (json.dumps({"shapes": json.dumps({"x:0": [2, 3], "y:0": []})}), {"x:0": [2, 3], "y:0": []}),
    ],
)
def test_declared(parameters: str, expected: dict[str, list[int]]) -> None:
    assert shapes.declared(parameters) == expected


@pytest.mark.parametrize(
    ("shapes_parameter", "sentence"),
    [("[1]", "not a JSON object"), ("{", "not JSON"), (7, "not JSON")],
)
def test_declared_refuses(shapes_parameter: Any, sentence: str) -> None:
    with pytest.raises(StatusError, match=f"tf_status=3 The request parameter shapes is {sentence}"):
        shapes.declared(json.dumps({"shapes": shapes_parameter}))


@pytest.mark.parametrize(
    ("shape", "elements"), [([], 1), ([3], 3), ([2, 3], 6), ([0, 5], 0), ([1] * 254, 1), ([0, 2**62, 2**62], 0)]
)
def test_checked(shape: list[int], elements: int) -> None:
    assert shapes.checked("x:0", shape, elements) == tuple(shape)


@pytest.mark.parametrize(
    ("shape", "elements", "sentence"),
    [
        ([2, 3], 4, r"Input x:0 of shape \[2,3\] needs 6 elements but the request holds 4"),
        ([], 2, r"Input x:0 of shape \[\] needs 1 elements but the request holds 2"),
        ([-1, 4], 4, r"Input x:0 of shape \[-1,4\] has a negative dimension"),
        ([-2, -2], 4, "negative dimension"),
        ([2**40, 2**40, 0], 0, "more than 2\\*\\*63 - 1 elements"),
        ([0, 2**63], 0, "more than 2\\*\\*63 - 1 elements"),
        ([1] * 255, 1, "Input x:0 has 255 dimensions; 254 is the limit"),
        ([2.0], 2, "is not a list of integers"),
        ([True], 1, "is not a list of integers"),
        ({"2": 1}, 2, "is not a list of integers"),
        ("3", 3, "is not a list of integers"),
        (None, 1, "is not a list of integers"),
    ],
)
def test_checked_refuses(shape: Any, elements: int, sentence: str) -> None:
    with pytest.raises(StatusError, match=sentence) as refused:
        shapes.checked("x:0", shape, elements)
    assert refused.value.code == 3
