"""The sections that start servers of their own: the runner, memory and loads, the start of a bridge."""

from __future__ import annotations

from pathlib import Path

from benchmarks import memory_per_model
from benchmarks.comparison import Effort
from benchmarks.results import Json
from benchmarks.runner_speed import runner_speed
from benchmarks.start_up import start_up
from model_repo_sync.triton_config import PROCESSES, RunnerOptions

REQUESTS_PER_SECOND = 2000
"""About what one client makes of one Triton, so that measurements take the seconds that they are to take."""


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
