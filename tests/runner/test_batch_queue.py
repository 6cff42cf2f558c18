from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine.batch_queue import BatchQueue
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.runner.tensorflow_engine.errors import StatusError


@dataclass(frozen=True)
class Rows:
    """A task of `size` rows that remembers of which it is a part."""

    name: str
    size: int

    def split(self, sizes: Sequence[int]) -> Sequence[Rows]:
        assert sum(sizes) == self.size
        return [Rows(f"{self.name}{number}", size) for number, size in enumerate(sizes)]


def queue(**parameters: Any) -> BatchQueue[Rows]:
    return BatchQueue(BatchingParameters(**parameters))


def filled(sizes: Sequence[int], **parameters: Any) -> BatchQueue[Rows]:
    result = queue(**parameters)
    for number, size in enumerate(sizes):
        result.add(Rows(chr(ord("a") + number), size), now=0)
    return result


def batches(items: BatchQueue[Rows], now: float = float("inf")) -> list[list[str]]:
    taken = iter(lambda: items.take(now), None)
    return [[task.name for task in batch.tasks] for batch in taken]


SPLITTING = {"enable_large_batch_splitting": True, "max_enqueued_batches": 100}

GROUPINGS: list[tuple[Sequence[int], dict[str, Any], list[list[str]]]] = [
    ([1, 1, 1], {"max_batch_size": 4}, [["a", "b", "c"]]),
    ([2, 2, 1], {"max_batch_size": 4}, [["a", "b"], ["c"]]),
    ([3, 2], {"max_batch_size": 4}, [["a"], ["b"]]),
    ([4, 4], {"max_batch_size": 4}, [["a"], ["b"]]),
    ([0, 2], {"max_batch_size": 4}, [["a", "b"]]),
    ([3], {"max_batch_size": 3, "max_execution_batch_size": 2, **SPLITTING}, [["a0"], ["a1"]]),
    ([1, 5], {"max_batch_size": 9, "max_execution_batch_size": 3, **SPLITTING}, [["a", "b0"], ["b1"]]),
    ([2, 6], {"max_batch_size": 9, "max_execution_batch_size": 2, **SPLITTING}, [["a"], ["b0"], ["b1"], ["b2"]]),
    ([2, 1], {"max_batch_size": 9, "max_execution_batch_size": 2, **SPLITTING}, [["a"], ["b0"]]),
]


@pytest.mark.parametrize(("sizes", "parameters", "expected"), GROUPINGS)
def test_how_tasks_make_batches(sizes: Sequence[int], parameters: dict[str, Any], expected: list[list[str]]) -> None:
    assert batches(filled(sizes, **parameters)) == expected


@pytest.mark.parametrize(
    ("sizes", "timeout", "due"),
    [
        ([], 1000, None),
        ([1], 0, 0),
        ([1], 1000, 0.001),
        ([4], 1000, 0),
        ([3, 3], 1000, 0),
        ([0], 1000, 0.001),
    ],
)
def test_a_batch_is_due_when_it_is_full_or_its_first_task_waited(
    sizes: Sequence[int], timeout: int, due: float | None
) -> None:
    items = filled(sizes, max_batch_size=4, batch_timeout_micros=timeout)
    assert items.due_in(now=0) == due
    assert (items.take(now=0) is not None) is (due == 0)


def test_the_timeout_begins_with_the_first_task_of_the_open_batch() -> None:
    items = queue(max_batch_size=4, batch_timeout_micros=1_000_000)
    items.add(Rows("a", 1), now=10)
    items.add(Rows("b", 1), now=10.9)
    assert items.due_in(now=10.9) == pytest.approx(0.1)
    items.add(Rows("c", 3), now=10.95)
    assert batches(items, now=10.96) == [["a", "b"]]
    assert items.due_in(now=11) == pytest.approx(0.95)


REFUSALS: list[tuple[Sequence[int], dict[str, Any], int, str]] = [
    ([4], {"max_batch_size": 3}, 3, "Task size 4 is larger than maximum input batch size 3"),
    (
        [4],
        {"max_batch_size": 3, "max_execution_batch_size": 2, **SPLITTING},
        3,
        "Task size 4 is larger than maximum input batch size 3",
    ),
    (
        [2, 2, 2],
        {"max_batch_size": 2, "max_enqueued_batches": 2},
        14,
        "The batch scheduling queue to which this task was submitted is full; currently 2 batches enqueued and "
        "max_enqueued_batches is 2",
    ),
    (
        [1, 3],
        {"max_batch_size": 3, "max_execution_batch_size": 2, **SPLITTING, "max_enqueued_batches": 1},
        14,
        "The batch scheduling queue to which this task was submitted is full; task size is 3 but scheduling capacity "
        "is only 1 (num_enqueued_batches=1, max_enqueued_batches=1, open_batch_size=1, max_execution_batch_size=2)",
    ),
    (
        [1],
        {"enable_large_batch_splitting": True},
        14,
        "The batch scheduling queue to which this task was submitted is full; task size is 1 but scheduling capacity "
        "is only 0 (num_enqueued_batches=1, max_enqueued_batches=10, open_batch_size=0, max_execution_batch_size=0)",
    ),
]


@pytest.mark.parametrize(("sizes", "parameters", "code", "text"), REFUSALS)
def test_what_is_refused(sizes: Sequence[int], parameters: dict[str, Any], code: int, text: str) -> None:
    items = filled(sizes[:-1], **parameters)
    with pytest.raises(StatusError) as refused:
        items.add(Rows("z", sizes[-1]), now=0)
    assert (refused.value.code, refused.value.text) == (code, text)
    assert "z" not in str(batches(items))


def test_a_queue_that_was_emptied_takes_tasks_again() -> None:
    items = filled([2, 2], max_batch_size=2, max_enqueued_batches=2)
    assert batches(items) == [["a"], ["b"]]
    assert items.due_in(now=0) is None
    items.add(Rows("c", 2), now=0)
    assert batches(items) == [["c"]]
