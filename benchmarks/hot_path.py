"""Where the bridge's process spends the time of small requests: py-spy by function, perf by library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from benchmarks.calls import Call
from benchmarks.comparison import Effort
from benchmarks.payloads import SMALL
from benchmarks.results import Json
from benchmarks.stand import NATIVE, Stand

PY_SPY, PERF = "py-spy", "perf"
IN_FLIGHT = 8
BATCH = 2000
SAMPLES_PER_SECOND = 500
FUNCTIONS, LIBRARIES = 15, 8
ROUNDS_OF_SECONDS = 20
"""The recordings take this many times the seconds of one measurement."""

FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^():]+)(?::\d+)?\)")
SHARE = re.compile(r"^\s*(?P<percent>[\d.]+)%\s+(?P<library>\S+)", re.MULTILINE)


def profile(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """Small requests, eight in flight, to the native server; the tables are empty where a program is missing or may
    not look at the process."""
    process = stand.bridges[NATIVE].process.pid
    seconds = max(2, round(effort.seconds * ROUNDS_OF_SECONDS))
    call = stand.grpc_calls(SMALL, NATIVE)[1]
    with _under_load(call, scratch):
        functions = _functions(process, seconds, scratch / "stacks")
        libraries = _libraries(process, seconds, scratch / "perf.data")
    return {"figures": {"seconds": seconds, "functions": functions, "libraries": libraries}}


@contextmanager
def _under_load(call: Call, scratch: Path) -> Iterator[None]:
    stop = Event()

    def load() -> None:
        while not stop.is_set():
            call.load(BATCH, IN_FLIGHT, scratch)

    thread = Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _functions(process: int, seconds: int, output: Path) -> list[Json]:
    """The shares of the time of functions' own lines, and of what they call, of Python's in all."""
    program = shutil.which(PY_SPY) or shutil.which(str(Path(sys.executable).with_name(PY_SPY)))
    command = ["record", f"--pid={process}", f"--duration={seconds}", f"--rate={SAMPLES_PER_SECOND}", "--nonblocking"]
    if program is None or not _ran([program, *command, "--format=raw", f"--output={output}"]):
        return []
    return shares(output.read_text().splitlines())


def shares(stacks: Iterable[str]) -> list[Json]:
    """The functions with the most own time. Each stack is `outer (file);…;inner (file) samples`."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for line in stacks:
        stack, _, samples = line.rpartition(" ")
        names = [_name(frame) for frame in stack.split(";")]
        own[names[-1]] += int(samples)
        for name in set(names):
            whole[name] += int(samples)
    total = own.total()
    return [
        {"function": name, "own": round(count / total, 3), "with_callees": round(whole[name] / total, 3)}
        for name, count in own.most_common(FUNCTIONS)
    ]


def _name(frame: str) -> str:
    """A function with its file below the package, so that no path of this machine gets into the results."""
    found = FRAME.fullmatch(frame)
    if found is None:
        return frame
    parts = Path(found["file"]).parts
    return f"{found['function']} ({'/'.join(parts[-2:])})"


def _libraries(process: int, seconds: int, data: Path) -> list[Json]:
    program = shutil.which(PERF)
    if program is None or not _ran(
        [program, "record", f"--pid={process}", f"--output={data}", "--", "sleep", f"{seconds}"]
    ):
        return []
    report = [program, "report", f"--input={data}", "--sort=dso", "--stdio"]
    found = subprocess.run(report, capture_output=True, text=True, check=False).stdout
    parsed = [
        {"library": Path(m["library"]).name, "share": round(float(m["percent"]) / 100, 3)}
        for m in SHARE.finditer(found)
    ]
    return parsed[:LIBRARIES]


def _ran(command: list[str]) -> bool:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(
            f"{Path(command[0]).name} ended with {result.returncode}: {result.stderr.strip()[-300:]}", file=sys.stderr
        )
    return result.returncode == 0
