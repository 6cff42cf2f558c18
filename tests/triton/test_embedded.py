"""The embedded Triton for real: start, traps of its environment, ports, deaths."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpcclient

from bridge.state_dir import StateDir
from bridge.triton.embedded import EmbeddedFailure, EmbeddedSettings, EmbeddedTriton
from bridge.triton.endpoints import Endpoints, free_endpoints
from bridge.triton.wheel import EmbeddedUnavailable

pytestmark = pytest.mark.integration

RUNNER = Path(__file__).parent / "facts_runner"
SHARED_MEMORY = Path("/dev/shm")
CONFIG = """
name: "%s" backend: "tensorflow_runner" max_batch_size: 0
input [{name: "bridge.noop" data_type: TYPE_UINT8 dims: [-1] optional: true}]
output [{name: "facts" data_type: TYPE_STRING dims: [-1]}]
instance_group [{count: 1 kind: KIND_CPU}]
parameters [{key: "seconds" value: {string_value: "%s"}}]
"""


def write_model(repository: Path, name: str, seconds: float = 0) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(CONFIG % (name, seconds))


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.02)


def facts(grpc: str, model: str = "facts") -> dict[str, Any]:
    """Load `model` where needed and ask it what its process looks like."""
    with grpcclient.InferenceServerClient(grpc) as client:
        client.load_model(model)
        noop = grpcclient.InferInput("bridge.noop", [1], "UINT8")
        noop._raw_content = b"\0"
        result = client.infer(model, [noop], outputs=[grpcclient.InferRequestedOutput("facts")])
        answer: dict[str, Any] = json.loads(result.as_numpy("facts")[0])
        return answer


def server_name(grpc: str) -> str:
    with grpcclient.InferenceServerClient(grpc) as client:
        return str(client.get_server_metadata().name)


def group(leader: int) -> list[int]:
    """Live processes of the process group that `leader` began."""
    listing = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return [int(pid) for pid, pgid, state in rows if int(pgid) == leader and not state.startswith("Z")]


def shared_memory(prefix: str) -> set[str]:
    return {path.name for path in SHARED_MEMORY.glob(f"{prefix}*")}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., EmbeddedTriton]]:
    """Makes embedded Tritons, each in a state directory of its own that holds the model `facts`; stops them."""
    made: list[tuple[StateDir, EmbeddedTriton]] = []

    def one(name: str = "state", settings: EmbeddedSettings | None = None, **options: Any) -> EmbeddedTriton:
        state = StateDir(tmp_path / name)
        state.acquire()
        write_model(state.repository_path, "facts")
        made.append((state, EmbeddedTriton(state, settings=settings, runner=RUNNER, **options)))
        return made[-1][1]

    yield one
    for state, triton in made:
        triton.close(5)
        state.release()


@pytest.fixture
def triton(make: Callable[..., EmbeddedTriton]) -> EmbeddedTriton:
    started = make()
    started.start()
    started.wait_ready()
    return started


async def test_life_of_a_child(triton: EmbeddedTriton) -> None:
    pid = triton.pid
    assert pid is not None
    assert server_name(triton.grpc) == triton.nonce
    stub = facts(triton.grpc)["pid"]
    assert group(pid) == [pid, stub]
    assert shared_memory(triton.shared_memory_prefix)
    assert triton.poll() is None

    await triton.stop()

    assert triton.poll() == 0
    assert await triton.wait() == 0
    assert group(pid) == []
    assert shared_memory(triton.shared_memory_prefix) == set()


def test_start_is_quick(make: Callable[..., EmbeddedTriton]) -> None:
    triton = make()
    begin = time.monotonic()
    triton.start()
    triton.wait_ready()
    assert time.monotonic() - begin < 3


def test_only_an_acquired_state_directory_is_used(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="acquired"):
        EmbeddedTriton(StateDir(tmp_path), runner=RUNNER).start()


def test_start_is_refused_off_the_main_thread(make: Callable[..., EmbeddedTriton]) -> None:
    triton = make()
    errors: list[BaseException] = []

    def start() -> None:
        try:
            triton.start()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


@pytest.mark.parametrize("name", ["zustände", "a b", "$(touch x)", "a'b"])
def test_a_path_that_triton_cannot_pass_on_is_refused(make: Callable[..., EmbeddedTriton], name: str) -> None:
    with pytest.raises(EmbeddedUnavailable, match=r"only ASCII letters.*--state_dir"):
        make(name).start()


def test_a_running_child_is_not_started_twice(triton: EmbeddedTriton) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        triton.start()


def test_the_stub_runs_on_this_environment(
    make: Callable[..., EmbeddedTriton], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing of a hostile environment changes interpreter, packages or libpython, and secrets stay out."""
    hostile = {
        "PATH": "/usr/sbin",
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": "/nonexistent",
        "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu",
        "BRIDGE_DATABASE_URL": "postgresql://bridge:secret@db/bridge",
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "numpy.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    triton = make("state-1.a_b@c+d,e=f~g%h")
    triton.start()
    triton.wait_ready()

    seen = facts(triton.grpc)

    assert seen["prefix"] == sys.prefix
    assert seen["numpy"].startswith("1.")
    assert seen["openssl"]
    with open("/proc/self/maps") as maps:
        ours = {line.split()[-1] for line in maps if "/libpython3." in line}
    assert set(seen["libpython"]) >= ours
    assert len(seen["libpython"]) == 1
    assert os.listdir(seen["cwd"]) == []
    assert seen["environment"]["MALLOC_ARENA_MAX"] == "2"
    assert not [name for name in seen["environment"] if name.startswith(("BRIDGE_", "PYTHON"))]


async def test_two_side_by_side(make: Callable[..., EmbeddedTriton]) -> None:
    first, second = make("first"), make("second")
    for triton in (first, second):
        triton.start()
    for triton in (first, second):
        await triton.ready()
    assert facts(first.grpc)["pid"] != facts(second.grpc)["pid"]

    await first.stop()

    assert shared_memory(second.shared_memory_prefix)
    assert server_name(second.grpc) == second.nonce
    assert facts(second.grpc)


@pytest.mark.parametrize("stolen", ["grpc_port", "http_port", "metrics_port"])
def test_a_taken_port_is_replaced(make: Callable[..., EmbeddedTriton], stolen: str) -> None:
    taken = free_endpoints()
    choices = iter([taken])
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", getattr(taken, stolen)))
        thief.listen()
        triton = make(endpoints=lambda: next(choices, None) or free_endpoints())
        triton.start()
        triton.wait_ready()
        assert getattr(taken, stolen) not in {int(a.rpartition(":")[2]) for a in (triton.grpc, triton.http)}
        assert server_name(triton.grpc) == triton.nonce
        assert triton.metrics != taken.metrics
        assert triton.poll() is None


def test_a_foreign_triton_on_the_ports_is_not_ours(triton: EmbeddedTriton, make: Callable[..., EmbeddedTriton]) -> None:
    """Even where the ports of another live Triton are chosen, the bridge ends up with its own child."""
    ports = [int(address.rpartition(":")[2]) for address in (triton.grpc, triton.http, triton.metrics or "")]
    choices = iter([Endpoints(*ports)])
    other = make("other", endpoints=lambda: next(choices, None) or free_endpoints())
    other.start()
    other.wait_ready()
    assert server_name(other.grpc) == other.nonce != triton.nonce
    assert other.grpc != triton.grpc


def test_ports_that_stay_taken_end_in_an_error(
    make: Callable[..., EmbeddedTriton], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.triton.embedded.PORT_ATTEMPTS", 1)
    taken = free_endpoints()
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", taken.grpc_port))
        thief.listen()
        triton = make(endpoints=lambda: taken)
        triton.start()
        with pytest.raises(EmbeddedFailure, match=r"tritonserver ended with exit code 1; .*in use"):
            triton.wait_ready()


def test_a_child_that_fails_tells_why(make: Callable[..., EmbeddedTriton]) -> None:
    triton = make(settings=EmbeddedSettings(flags=("--load-model=absent",)))
    triton.start()
    with pytest.raises(EmbeddedFailure, match=r"tritonserver ended with exit code 1; its log '.*triton.log' .*absent"):
        triton.wait_ready()


def test_the_log_is_rotated(make: Callable[..., EmbeddedTriton], tmp_path: Path) -> None:
    triton = make(settings=EmbeddedSettings(log_max_bytes=2000, log_backups=2))
    triton.start()
    triton.wait_ready()
    triton.close()
    logs = sorted(path.name for path in (tmp_path / "state").glob("triton.log*"))
    assert logs == ["triton.log", "triton.log.1", "triton.log.2"]
    assert "All models are stopped" in "\n".join(triton.tail())


async def test_a_killed_child_is_noticed_and_restarted_in_place(triton: EmbeddedTriton) -> None:
    stub = facts(triton.grpc)["pid"]
    addresses, nonce, pid = (triton.grpc, triton.http, triton.metrics), triton.nonce, triton.pid
    assert pid is not None
    death = asyncio.ensure_future(triton.wait())
    await asyncio.sleep(0)
    assert not death.done()

    os.kill(pid, signal.SIGKILL)

    assert await asyncio.wait_for(death, 5) == -signal.SIGKILL
    assert triton.poll() == -signal.SIGKILL
    await asyncio.to_thread(until, lambda: stub not in group(pid), 1.0)
    await triton.restart()
    assert (triton.grpc, triton.http, triton.metrics) == addresses
    assert triton.nonce != nonce
    assert server_name(triton.grpc) == triton.nonce
    assert facts(triton.grpc)["pid"] != stub


async def test_a_hung_child_is_killed_by_restart(triton: EmbeddedTriton) -> None:
    assert triton.pid is not None
    pid = triton.pid
    os.kill(pid, signal.SIGSTOP)
    await triton.restart()
    assert triton.pid != pid
    assert group(pid) == []


async def test_stop_kills_a_child_that_does_not_end(triton: EmbeddedTriton) -> None:
    assert triton.pid is not None
    os.kill(triton.pid, signal.SIGSTOP)
    await triton.stop(timeout=0.2)
    assert triton.poll() == -signal.SIGKILL
    assert group(triton.pid) == []


def test_a_stub_that_outlived_a_killed_parent_ends_at_the_next_start(tmp_path: Path) -> None:
    """A stopped stub cannot notice that its Triton is gone."""
    dead = StateDir(tmp_path / "dead")
    write_model(dead.repository_path, "facts")
    command = [sys.executable, "-m", "tests.triton.embedded_parent", str(dead.path), str(RUNNER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = json.loads(parent.stdout.readline())
        stub = facts(child["grpc"])["pid"]
        os.kill(stub, signal.SIGSTOP)
        parent.kill()
    until(lambda: group(child["pid"]) == [stub])
    dead.acquire()
    successor = EmbeddedTriton(dead, runner=RUNNER)
    successor.start()
    try:
        until(lambda: group(child["pid"]) == [], 1)
        assert shared_memory(successor.shared_memory_prefix) == set()
    finally:
        successor.close()
        dead.release()


@pytest.mark.parametrize("loading", [False, True], ids=["idle", "while a model loads"])
def test_nothing_outlives_a_killed_parent(tmp_path: Path, triton: EmbeddedTriton, loading: bool) -> None:
    """kill -9 of the bridge: its Triton and stubs end, the next start removes its shared memory and no other's."""
    facts(triton.grpc)
    others = shared_memory(triton.shared_memory_prefix)
    assert others
    dead = StateDir(tmp_path / "dead")
    write_model(dead.repository_path, "facts", 60 if loading else 0)
    command = [sys.executable, "-m", "tests.triton.embedded_parent", str(dead.path), str(RUNNER)]
    with subprocess.Popen(
        [*command, *(["facts"] if loading else [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = json.loads(parent.stdout.readline())
        if not loading:
            facts(child["grpc"])
        until(lambda: len(group(child["pid"])) == 2)
        parent.kill()
    begin = time.monotonic()
    until(lambda: not group(child["pid"]), 10)
    assert time.monotonic() - begin < 10
    left = SHARED_MEMORY / f"{child['prefix']}left"
    left.write_bytes(b"a region that a killed stub did not remove")

    dead.acquire()
    successor = EmbeddedTriton(dead, runner=RUNNER)
    successor.start()
    try:
        assert successor.shared_memory_prefix == child["prefix"]
        assert not left.exists()
        assert shared_memory(triton.shared_memory_prefix) == others
        successor.wait_ready()
    finally:
        successor.close()
        dead.release()
    assert facts(triton.grpc)
