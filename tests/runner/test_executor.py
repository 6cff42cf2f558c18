from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Queue
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine.executor import FAST_SECONDS, Executor, RunTime

DEADLINE = 10.0


@dataclass
class Request:
    """A request of Triton's that counts what is asked of it; its sender hands the response to `answers`."""

    number: int
    answers: Queue[tuple[int, str]]
    immediate: bool = False

    def get_response_sender(self) -> Request:
        return self


@dataclass
class Service:
    """Answers a request's number; waits for `gate` first, if there is one. A `broken` sender cannot send."""

    gate: threading.Event | None = None
    broken: set[int] = field(default_factory=set)
    started: Queue[int] = field(default_factory=Queue)
    waited: list[float] = field(default_factory=list)

    def answer(self, request: Request, waited: float = 0.0) -> str:
        self.started.put(request.number)
        self.waited.append(waited)
        if self.gate is not None and not request.immediate:
            assert self.gate.wait(DEADLINE)
        return f"answer {request.number}"

    def is_immediate(self, request: Request) -> bool:
        return request.immediate

    def queue_full(self) -> str:
        return "full"

    def send(self, sender: Request, response: Any) -> None:
        if sender.number in self.broken:
            raise RuntimeError("the client went away")
        sender.answers.put((sender.number, response))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def short() -> RunTime:
    run_time = RunTime()
    run_time.add(FAST_SECONDS / 2)
    return run_time


@pytest.mark.parametrize(
    ("runs", "is_short"),
    [
        ([], False),
        ([0.0001], True),
        ([0.0006], False),
        ([0.0001, 0.1], False),
        ([0.01] + [0.0001] * 10, False),
        ([0.01] + [0.0001] * 40, True),
    ],
)
def test_the_mean_of_the_run_time_decides(runs: list[float], is_short: bool) -> None:
    run_time = RunTime()
    for seconds in runs:
        run_time.add(seconds)
    assert run_time.is_short is is_short


def test_short_runs_are_answered_at_once() -> None:
    executor = Executor(Service(), short(), threads=1, queue_size=1)
    requests = [Request(number, Queue()) for number in range(3)]
    assert executor.execute(requests) == ["answer 0", "answer 1", "answer 2"]
    assert executor.stop()


def test_long_runs_are_answered_by_threads_side_by_side(gate: threading.Event) -> None:
    service = Service(gate)
    executor = Executor(service, RunTime(), threads=2, queue_size=5)
    answers: Queue[tuple[int, str]] = Queue()
    assert executor.execute([Request(number, answers) for number in range(2)]) is None
    assert {service.started.get(timeout=DEADLINE), service.started.get(timeout=DEADLINE)} == {0, 1}
    gate.set()
    assert {answers.get(timeout=DEADLINE) for _ in range(2)} == {(0, "answer 0"), (1, "answer 1")}
    assert executor.stop()


def test_a_full_queue_refuses_and_a_description_passes(gate: threading.Event) -> None:
    service = Service(gate)
    executor = Executor(service, RunTime(), threads=1, queue_size=2)
    answers: Queue[tuple[int, str]] = Queue()
    executor.execute([Request(0, answers)])
    assert service.started.get(timeout=DEADLINE) == 0
    executor.execute([Request(number, answers) for number in range(1, 5)])
    assert [answers.get(timeout=DEADLINE) for _ in range(2)] == [(3, "full"), (4, "full")]
    executor.execute([Request(9, answers, immediate=True)])
    assert answers.get(timeout=DEADLINE) == (9, "answer 9")
    gate.set()
    assert [answers.get(timeout=DEADLINE)[0] for _ in range(3)] == [0, 1, 2]
    assert executor.stop()


def test_the_wait_in_the_queue_is_told() -> None:
    seconds = iter([100.0, 103.5])
    service = Service()
    executor = Executor(service, RunTime(), threads=1, queue_size=2, clock=lambda: next(seconds, 200.0))
    answers: Queue[tuple[int, str]] = Queue()
    executor.execute([Request(0, answers)])
    answers.get(timeout=DEADLINE)
    assert service.waited == [3.5]
    assert executor.stop()


def test_a_response_that_cannot_be_sent_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    executor = Executor(Service(broken={0}), RunTime(), threads=1, queue_size=5)
    answers: Queue[tuple[int, str]] = Queue()
    executor.execute([Request(0, answers), Request(1, answers)])
    assert answers.get(timeout=DEADLINE) == (1, "answer 1")
    assert "A response could not be sent" in caplog.text
    assert executor.stop()


def test_stop_tells_that_a_run_does_not_end(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_repo_sync.runner.tensorflow_engine.executor.STOP_SECONDS", 0.05)
    service = Service(gate)
    executor = Executor(service, RunTime(), threads=1, queue_size=1)
    executor.execute([Request(0, Queue())])
    service.started.get(timeout=DEADLINE)
    assert not executor.stop()


def test_a_thread_gives_memory_back_once_it_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_repo_sync.runner.tensorflow_engine.executor.IDLE_SECONDS", 0.01)
    idle: Queue[None] = Queue()
    executor = Executor(Service(), RunTime(), threads=1, queue_size=5, on_idle=lambda: idle.put(None))
    answers: Queue[tuple[int, str]] = Queue()
    for number in range(2):
        executor.execute([Request(number, answers)])
        assert answers.get(timeout=DEADLINE) == (number, f"answer {number}")
        idle.get(timeout=DEADLINE)
    assert executor.stop()
    assert idle.empty()
