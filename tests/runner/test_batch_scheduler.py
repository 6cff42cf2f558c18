from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Queue
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine.batch_queue import Batch
from model_repo_sync.runner.tensorflow_engine.batch_scheduler import BatchScheduler
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.runner.tensorflow_engine.errors import StatusError

DEADLINE = 10.0


@dataclass(frozen=True)
class Row:
    name: str
    size: int = 1

    def split(self, sizes: Sequence[int]) -> Sequence[Row]:
        raise AssertionError("nothing is split here")


class Runs:
    """Batches as they ran, by their keys and tasks; the gate holds up every run until it opens."""

    def __init__(self) -> None:
        self.started: Queue[tuple[str, list[str]]] = Queue()
        self.gate = threading.Event()

    def __call__(self, key: str, batch: Batch[Row]) -> None:
        names = [task.name for task in batch.tasks]
        self.started.put((key, names))
        assert self.gate.wait(DEADLINE)
        if "bad" in names:
            raise RuntimeError("nobody catches this")

    def next(self) -> tuple[str, list[str]]:
        return self.started.get(timeout=DEADLINE)


@pytest.fixture
def runs() -> Iterator[Runs]:
    result = Runs()
    yield result
    result.gate.set()


def scheduler(runs: Runs, **parameters: Any) -> BatchScheduler[str, Row]:
    return BatchScheduler(BatchingParameters(**{"num_batch_threads": 1, **parameters}), runs)


def test_what_comes_during_a_run_runs_together(runs: Runs) -> None:
    batches = scheduler(runs)
    batches.schedule("k", Row("first"))
    assert runs.next() == ("k", ["first"])
    for name in "abc":
        batches.schedule("k", Row(name))
    runs.gate.set()
    assert runs.next() == ("k", ["a", "b", "c"])
    assert batches.stop()


def test_keys_never_share_a_batch_and_take_turns(runs: Runs) -> None:
    batches = scheduler(runs, max_batch_size=1)
    batches.schedule("x", Row("x0"))
    assert runs.next() == ("x", ["x0"])
    for key, name in [("x", "x1"), ("x", "x2"), ("y", "y1"), ("y", "y2"), ("z", "z1")]:
        batches.schedule(key, Row(name))
    runs.gate.set()
    assert [runs.next()[1] for _ in range(5)] == [["x1"], ["y1"], ["z1"], ["x2"], ["y2"]]
    assert batches.stop()


def test_an_open_batch_waits_for_its_timeout_and_a_full_one_does_not(runs: Runs) -> None:
    runs.gate.set()
    batches = scheduler(runs, max_batch_size=3, batch_timeout_micros=50_000)
    batches.schedule("k", Row("a"))
    batches.schedule("k", Row("b"))
    assert runs.next() == ("k", ["a", "b"])
    patient = scheduler(runs, max_batch_size=2, batch_timeout_micros=3_600_000_000)
    patient.schedule("k", Row("c"))
    patient.schedule("k", Row("d"))
    assert runs.next() == ("k", ["c", "d"])
    assert batches.stop()
    assert patient.stop()


def test_stop_runs_what_is_left_at_once(runs: Runs) -> None:
    runs.gate.set()
    batches = scheduler(runs, batch_timeout_micros=3_600_000_000)
    batches.schedule("k", Row("a"))
    assert batches.stop()
    assert runs.next() == ("k", ["a"])


def test_as_many_batches_run_at_a_time_as_there_are_threads(runs: Runs) -> None:
    batches = scheduler(runs, num_batch_threads=3, max_batch_size=1)
    for number in range(4):
        batches.schedule("k", Row(str(number)))
    assert sorted(runs.next()[1] for _ in range(3)) == [["0"], ["1"], ["2"]]
    assert runs.started.empty()
    runs.gate.set()
    assert runs.next() == ("k", ["3"])
    assert batches.stop()


def test_threads_have_the_name_of_their_pool(runs: Runs) -> None:
    batches = scheduler(runs, thread_pool_name="my_pool", num_batch_threads=2)
    assert {"my_pool-0", "my_pool-1"} <= {thread.name for thread in threading.enumerate()}
    assert batches.stop()


def test_a_full_queue_refuses_and_others_do_not(runs: Runs) -> None:
    batches = scheduler(runs, max_batch_size=1, max_enqueued_batches=1)
    batches.schedule("k", Row("running"))
    runs.next()
    batches.schedule("k", Row("waiting"))
    with pytest.raises(StatusError, match="is full; currently 1 batches enqueued"):
        batches.schedule("k", Row("refused"))
    batches.schedule("other", Row("taken"))
    runs.gate.set()
    assert sorted(runs.next()[1] for _ in range(2)) == [["taken"], ["waiting"]]
    assert batches.stop()


def test_a_run_that_raises_ends_no_thread(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    runs.gate.set()
    batches = scheduler(runs)
    batches.schedule("k", Row("bad"))
    runs.next()
    batches.schedule("k", Row("good"))
    assert runs.next() == ("k", ["good"])
    assert batches.stop()
    assert "A batch of 1 requests was lost" in caplog.text


def test_many_clients_at_once_lose_nothing() -> None:
    done: Queue[str] = Queue()

    def process(key: str, batch: Batch[Row]) -> None:
        for task in batch.tasks:
            done.put(task.name)

    parameters = BatchingParameters(
        max_batch_size=4, max_enqueued_batches=10_000, num_batch_threads=4, batch_timeout_micros=200
    )
    batches: BatchScheduler[str, Row] = BatchScheduler(parameters, process)

    def client(number: int) -> None:
        for index in range(200):
            batches.schedule(f"k{index % 3}", Row(f"{number}.{index}"))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in clients:
        thread.start()
    names = {done.get(timeout=DEADLINE) for _ in range(8 * 200)}
    assert len(names) == 8 * 200
    for thread in clients:
        thread.join()
    assert batches.stop()
