"""The sections that start servers of their own: the runner, memory and loads, the start of a bridge."""

from __future__ import annotations

from pathlib import Path

from benchmarks import memory_per_model
from benchmarks.comparison import Effort
from benchmarks.large_tensors import BURST, MODES, large_tensors
from benchmarks.results import Json
from benchmarks.runner_speed import runner_speed
from benchmarks.start_up import start_up
from model_repo_sync.triton_config import PROCESSES, RunnerOptions

QUICK_SECONDS = 0.2
"""Measurements shorter than this only show that everything works."""
REQUESTS_PER_SECOND = 2000
"""About what one client makes of one Triton, so that measurements take the seconds that they are to take."""


def large(effort: Effort, scratch: Path) -> Json:
    """Large tensors with shared memory and without, and the memory that many of them leave."""
    place = scratch / "large"
    place.mkdir()
    burst = BURST if effort.seconds >= QUICK_SECONDS else 20
    found = large_tensors(place, rounds=effort.rounds, burst=burst)
    return {"figures": {mode: found[mode] for mode in MODES}}


def runner(effort: Effort, scratch: Path) -> Json:
    """The runner in either mode against the model that only answers its input, all in one Triton."""
    runners = {processes: RunnerOptions(processes=processes) for processes in PROCESSES}
    requests = max(50, int(REQUESTS_PER_SECOND * effort.seconds))
    found = runner_speed(scratch / "runner", runners, rounds=effort.rounds, requests=requests)
    return {"figures": found["paths"]}


def memory(effort: Effort, scratch: Path) -> Json:
    """Ten small models in either mode: memory in all, and the time of each load."""
    return {"figures": memory_per_model.compare(effort.rounds, memory_per_model.MODELS)}


def start(effort: Effort, scratch: Path) -> Json:
    """From the command to READY with one small model."""
    return {"figures": start_up(scratch / "start", rounds=effort.rounds)}
