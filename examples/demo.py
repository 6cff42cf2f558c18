"""A tour of the bridge that checks each of its steps and exits 0 only if all held: python -m examples.demo

Exports models with TensorFlow, predicts with the official client and with curl, drops a third version into the served
directory while a client loops, and reads the history of all that back from SQL.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.server import Server, serving

EXAMPLES = Path(__file__).parent
MODEL = "half_plus"
X = [1.0, 2.0, 5.0]
ROLLOVER_SECONDS = 30.0


class DemoFailed(Exception):
    """A step did not show what it has to show."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bridge-demo-") as directory:
        try:
            tour(Path(directory))
        except (DemoFailed, RuntimeError, OSError, subprocess.SubprocessError) as error:
            print(f"\nThe demo failed: {error}", file=sys.stderr)
            return 1
    print("\nEvery step held.")
    return 0


def tour(work: Path) -> None:
    base_path, waiting = work / "models" / MODEL, work / "exported" / "3"
    step("Export y = 0.5 x + 2, + 3 and + 4 with TensorFlow; the first two are versions 1 and 2")
    run([sys.executable, str(EXAMPLES / "half_plus_two.py"), str(base_path / "1"), str(base_path / "2"), str(waiting)])
    state_dir = work / "state"
    step("Start the bridge with its own Triton")
    with serving(state_dir, [f"--model_name={MODEL}", f"--model_base_path={base_path}"]) as server:
        show(f"READY grpc={server.grpc} rest={server.rest}")
        step("Predict with the official client in a process of its own; version 2 is the latest")
        check("answer", predict_by_grpc(server), [3.5, 4.0, 5.5])
        step("Predict by REST with curl")
        check("answer", predict_by_curl(server), [3.5, 4.0, 5.5])
        step("Drop in version 3 while a client loops")
        roll_over(server, waiting, base_path / "3")
        check("answer", predict_by_grpc(server), [4.5, 5.0, 6.5])
    step("The server ended by SIGTERM with exit code 0; read the history back from SQL")
    check_history(version_events(state_dir / "bridge.db"))


def predict_by_grpc(server: Server) -> Any:
    values = [str(value) for value in X]
    return json.loads(run([sys.executable, str(EXAMPLES / "predict.py"), server.grpc, MODEL, *values]))


def predict_by_curl(server: Server) -> Any:
    url = f"http://{server.rest}/v1/models/{MODEL}:predict"
    answer = run(["curl", "--silent", "--show-error", "--data", json.dumps({"instances": X}), url])
    return json.loads(answer).get("predictions", answer)


def roll_over(server: Server, source: Path, target: Path) -> None:
    """The directory is copied beside its place and renamed into it, so that it appears whole."""
    with looping_client(server, source.with_name("loop.log")) as loop:
        check("first answer", next_fact(loop), {"version": 2, "y": [3.5]})
        started = time.monotonic()
        staging = target.with_name(f".{target.name}.staging")
        shutil.copytree(source, staging)
        staging.rename(target)
        check("next answer", next_fact(loop), {"version": 3, "y": [4.5]})
        show(f"version 3 answers {time.monotonic() - started:.1f} s after it appeared")
        wait_for_end(server, 2)
        assert loop.stdin is not None
        loop.stdin.close()
        outcome = next_fact(loop)
    check(f"failures of {outcome['requests']} requests", outcome["failures"], [])


@contextmanager
def looping_client(server: Server, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A client that ends when its input does, and in any case before long."""
    command = [sys.executable, str(EXAMPLES / "loop.py"), server.grpc, MODEL]
    pipe = subprocess.PIPE
    with log.open("w") as stderr, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True) as loop:
        watchdog = threading.Timer(ROLLOVER_SECONDS, loop.kill)
        watchdog.start()
        try:
            yield loop
        finally:
            watchdog.cancel()


def next_fact(loop: subprocess.Popen[str]) -> Any:
    assert loop.stdout is not None
    line = loop.stdout.readline()
    if not line:
        raise DemoFailed("the looping client ended, or showed nothing new in time")
    return json.loads(line)


def wait_for_end(server: Server, version: int) -> None:
    url = f"http://{server.rest}/v1/models/{MODEL}/versions/{version}"
    deadline = time.monotonic() + ROLLOVER_SECONDS
    while time.monotonic() < deadline:
        status = json.loads(run(["curl", "--silent", "--show-error", url]))
        if status["model_version_status"][0]["state"] == "END":
            show(f"version {version} has ended")
            return
        time.sleep(0.2)
    raise DemoFailed(f"version {version} has not ended: {status}")


def version_events(database: Path) -> list[tuple[int, str]]:
    """(version, state) of every event about a version, in order; each is printed.

    AVAILABLE comes twice: once more when the files that serve have been read and their fingerprint is known.
    """
    query = (
        "select at, json_extract(after, '$.version'), json_extract(after, '$.state'),"
        " substr(json_extract(after, '$.fingerprint'), 1, 8) from events"
        " where subject = ? and action = 'version observed' order by seq"
    )
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute(query, (f"model:{MODEL}",)).fetchall()
    for at, version, state, fingerprint in rows:
        show(f"{datetime.fromtimestamp(at / 1e6, UTC):%H:%M:%S.%f} version {version} {state} {fingerprint}".rstrip())
    return [(version, state) for _, version, state, _ in rows]


def check_history(events: Sequence[tuple[int, str]]) -> None:
    """Version 3 served before version 2 was let go, and version 1 was never taken up."""
    life = ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]
    check("version 1", states(events, 1), [])
    check("version 2", states(events, 2), life)
    check("version 3", states(events, 3)[:3], life[:3])
    check("3 serves before 2 goes", events.index((3, "AVAILABLE")) < events.index((2, "UNLOADING")), True)


def states(events: Sequence[tuple[int, str]], version: int) -> list[str]:
    """The states of a version in their order, each once."""
    return list(dict.fromkeys(state for number, state in events if number == version))


def run(command: Sequence[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise DemoFailed(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout


def step(sentence: str) -> None:
    print(f"\n== {sentence}", flush=True)


def show(fact: str) -> None:
    print(f"   {fact}", flush=True)


def check(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise DemoFailed(f"{what}: {found} instead of {expected}")
    show(f"{what}: {found}, as expected")


if __name__ == "__main__":
    sys.exit(main())
