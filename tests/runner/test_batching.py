"""The batcher between a double of Triton's requests and a double of TensorFlow's session, which adds 1 to each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Queue
from threading import Event
from typing import Any

import numpy as np
import pytest

from model_repo_sync.runner.tensorflow_engine.batching import STALE_SECONDS, Batcher
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from model_repo_sync.runner.tensorflow_engine.errors import StatusError
from model_repo_sync.runner.tensorflow_engine.feed import Array
from model_repo_sync.runner.tensorflow_engine.merging import Feeds, Value

DEADLINE = 10.0
BAD = 99.0
FULL_AT = 3


@dataclass
class Request:
    """A request of Triton's that feeds `rows`; its sender hands the answer to `answers`."""

    rows: Any
    answers: Queue[Any] = field(default_factory=Queue)
    fetches: list[str] = field(default_factory=lambda: ["y:0"])
    immediate: bool = False
    timeout_microseconds: int = 0
    cancelled: bool = False

    def get_response_sender(self) -> Request:
        return self

    def timeout(self) -> int:
        return self.timeout_microseconds

    def is_cancelled(self) -> bool:
        return self.cancelled

    def answer(self) -> Any:
        """What the client got: rows by output, or code and text of the refusal."""
        return self.answers.get(timeout=DEADLINE)


@dataclass
class Service:
    """Runs wait for the gate. A row that is BAD fails its batch; the output `scalar:0` has no rows."""

    runs: list[int] = field(default_factory=list)
    started: Queue[int] = field(default_factory=Queue)
    gate: Event = field(default_factory=Event)

    def is_immediate(self, request: Request) -> bool:
        return request.immediate

    def answer(self, request: Request) -> str:
        return "described"

    def read(self, request: Request) -> tuple[list[str], Feeds]:
        if request.rows is None:
            raise StatusError(3, "cannot be read")
        return request.fetches, {"x:0": Value(DTYPES[1], np.array(request.rows, np.float32))}

    def run(self, feeds: Mapping[str, Sequence[Value]], fetches: Sequence[str], rows: int) -> list[Array]:
        merged = np.concatenate([value.array for value in feeds["x:0"]])
        assert len(merged) == rows
        self.runs.append(rows)
        self.started.put(rows)
        assert self.gate.wait(DEADLINE)
        if BAD in merged:
            raise StatusError(3, f"a bad row among {rows}")
        return [np.float32(0) if name == "scalar:0" else merged + 1 for name in fetches]  # type: ignore[misc]

    def response(self, request: Request, outputs: Mapping[str, Array]) -> Any:
        return {name: array.tolist() for name, array in outputs.items()}

    def error(self, failure: BaseException) -> Any:
        return (failure.code, failure.text) if isinstance(failure, StatusError) else repr(failure)

    def send(self, sender: Request, response: Any) -> None:
        sender.answers.put(response)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def service() -> Iterator[Service]:
    result = Service()
    yield result
    result.gate.set()


def batcher(service: Service, clock: Clock | None = None, **parameters: Any) -> Batcher:
    """A batcher with one thread, which is held up by a run of one row until the gate opens."""
    result = Batcher(service, BatchingParameters(**{"num_batch_threads": 1, **parameters}), clock or Clock())
    result.execute([Request([[0.0]])])
    service.started.get(timeout=DEADLINE)
    return result


def test_requests_share_a_run_and_each_gets_its_own_rows(service: Service) -> None:
    batches = batcher(service)
    requests = [Request([float(number)] * (number % 3)) for number in range(9)]
    batches.execute(requests)
    service.gate.set()
    answers = [request.answer() for request in requests]
    assert answers == [{"y:0": [number + 1.0] * (number % 3)} for number in range(9)]
    assert service.runs == [1, 9]
    assert batches.stop()


def test_batches_are_padded_to_allowed_sizes(service: Service) -> None:
    batches = batcher(service, max_batch_size=4, allowed_batch_sizes=(1, 4))
    requests = [Request([[1.0], [2.0]]), Request([[3.0]])]
    batches.execute(requests)
    service.gate.set()
    assert [request.answer() for request in requests] == [{"y:0": [[2.0], [3.0]]}, {"y:0": [[4.0]]}]
    assert service.runs == [1, 4]
    assert batches.stop()


def test_what_is_fetched_decides_who_shares_a_run(service: Service) -> None:
    batches = batcher(service)
    fetches = [["y:0", "z:0"], ["z:0", "y:0"], ["z:0"], ["y:0", "z:0"]]
    requests = [Request([[1.0]], fetches=names) for names in fetches]
    batches.execute(requests)
    service.gate.set()
    assert [sorted(request.answer()) for request in requests] == [sorted(names) for names in fetches]
    assert sorted(service.runs) == [1, 1, 3]
    assert batches.stop()


def test_a_large_request_runs_in_parts(service: Service) -> None:
    batches = batcher(
        service,
        max_batch_size=9,
        enable_large_batch_splitting=True,
        max_execution_batch_size=2,
        max_enqueued_batches=100,
        num_batch_threads=3,
    )
    service.gate.set()
    request = Request([[float(row)] for row in range(7)])
    batches.execute([request])
    assert request.answer() == {"y:0": [[row + 1.0] for row in range(7)]}
    assert max(service.runs) <= 2
    assert batches.stop()


def test_a_bad_part_fails_the_whole_request_once(service: Service) -> None:
    batches = batcher(
        service, max_batch_size=9, enable_large_batch_splitting=True, max_execution_batch_size=2, isolate_failures=True
    )
    request = Request([[1.0], [2.0], [BAD], [4.0], [BAD]])
    batches.execute([request])
    service.gate.set()
    assert request.answer() == (3, "a bad row among 2")
    assert batches.stop()
    assert request.answers.empty()


@pytest.mark.parametrize("isolate", [True, False])
def test_a_bad_row_fails_alone_unless_the_graph_has_state(service: Service, isolate: bool) -> None:
    batches = batcher(service, isolate_failures=isolate)
    requests = [Request([[row]]) for row in (1.0, BAD, 3.0)]
    batches.execute(requests)
    service.gate.set()
    answers = [request.answer() for request in requests]
    if isolate:
        assert answers == [{"y:0": [[2.0]]}, (3, "a bad row among 1"), {"y:0": [[4.0]]}]
        assert service.runs == [1, 3, 1, 1, 1]
    else:
        assert answers == [(3, "a bad row among 3")] * 3
        assert service.runs == [1, 3]
    assert batches.stop()


def test_shapes_that_do_not_fit_fail_all_members(service: Service) -> None:
    batches = batcher(service, isolate_failures=True)
    requests = [Request([[1.0]]), Request([[1.0, 2.0]])]
    batches.execute(requests)
    service.gate.set()
    for request in requests:
        code, text = request.answer()
        assert (code, text[:25]) == (9, "Tensors with name 'x:0' f")
    assert service.runs == [1]
    assert batches.stop()


def test_outputs_without_rows_fail_all_members(service: Service) -> None:
    batches = batcher(service, isolate_failures=True)
    requests = [Request([[1.0]], fetches=["scalar:0"]) for _ in range(2)]
    batches.execute(requests)
    service.gate.set()
    assert [request.answer() for request in requests] == [(9, "Batched output tensor has 0 dimensions")] * 2
    assert service.runs == [1, 2]
    assert batches.stop()


REFUSED: list[tuple[Any, tuple[int, str]]] = [
    (None, (3, "cannot be read")),
    (1.0, (3, "Batching Run() input tensors must have at least one dimension")),
    ([[1.0]] * (FULL_AT + 1), (3, "Task size 4 is larger than maximum input batch size 3")),
]


@pytest.mark.parametrize(("rows", "answer"), REFUSED)
def test_what_is_refused_before_it_waits(service: Service, rows: Any, answer: tuple[int, str]) -> None:
    batches = batcher(service, max_batch_size=FULL_AT)
    request = Request(rows)
    batches.execute([request])
    assert request.answer() == answer
    service.gate.set()
    assert batches.stop()


def test_a_full_queue_refuses(service: Service) -> None:
    batches = batcher(service, max_batch_size=1, max_enqueued_batches=2)
    requests = [Request([[1.0]]) for _ in range(3)]
    batches.execute(requests)
    code, text = requests[2].answer()
    assert (code, text.partition("; ")[2]) == (14, "currently 2 batches enqueued and max_enqueued_batches is 2")
    service.gate.set()
    assert [request.answer() for request in requests[:2]] == [{"y:0": [[2.0]]}] * 2
    assert batches.stop()


def test_a_description_passes_the_queue(service: Service) -> None:
    batches = batcher(service)
    request = Request([[1.0]], immediate=True)
    batches.execute([request])
    assert request.answer() == "described"
    service.gate.set()
    assert batches.stop()


@pytest.mark.parametrize(("timeouts", "expired"), [((1, 1), True), ((1, 0), False), ((1, 10_000_000), False)])
def test_a_batch_fails_when_all_its_deadlines_have_passed(
    service: Service, timeouts: Sequence[int], expired: bool
) -> None:
    clock = Clock()
    batches = batcher(service, clock)
    requests = [Request([[1.0]], timeout_microseconds=timeout) for timeout in timeouts]
    batches.execute(requests)
    clock.now = STALE_SECONDS / 2
    service.gate.set()
    answer = (8, "Run() timeout exceeded while waiting in batching queue") if expired else {"y:0": [[2.0]]}
    assert [request.answer() for request in requests] == [answer] * 2
    assert batches.stop()


def test_who_left_while_waiting_takes_no_room(service: Service) -> None:
    clock = Clock()
    batches = batcher(service, clock)
    requests = [Request([[1.0]], cancelled=cancelled) for cancelled in (False, True, False)]
    batches.execute(requests)
    clock.now = STALE_SECONDS * 2
    service.gate.set()
    assert [request.answer() for request in requests] == [
        {"y:0": [[2.0]]},
        (1, "The client cancelled the request while it waited"),
        {"y:0": [[2.0]]},
    ]
    assert service.runs == [1, 2]
    assert batches.stop()


def test_a_response_that_cannot_be_sent_harms_no_other(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Request):
        def get_response_sender(self) -> Any:
            return None

    batches = batcher(service)
    request = Request([[1.0]])
    batches.execute([Broken([[5.0]]), request])
    service.gate.set()
    assert request.answer() == {"y:0": [[2.0]]}
    assert batches.stop()
    assert "A response could not be sent" in caplog.text
