"""Several processes that answer clients on the same ports, fed by one that decides."""

from __future__ import annotations

import http.client
import itertools
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.conftest import Start
from tests.support import connections, processes, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export
from tests.support.processes import Process
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

TWO = "--workers=2"
WORKER = "bridge.workers.worker"
PAGE = "/monitoring/prometheus/metrics"
BODY = b'{"instances": [1.0]}'
QUICK = ("--file_system_poll_wait_seconds=1",)


def workers(server: BridgeServer) -> list[Process]:
    """The worker processes of `server`."""
    pid = server.process.pid
    return sorted((one for one in processes_of(pid) if WORKER in one.command), key=lambda one: one.pid)


def processes_of(parent: int) -> list[Process]:
    return [one for one in processes.naming(WORKER) if _parent(one.pid) == parent]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class Connection:
    """One kept-alive connection to the REST port."""

    def __init__(self, server: BridgeServer) -> None:
        self._server = server
        self._http = http.client.HTTPConnection(server.rest, timeout=20)
        self._http.connect()

    @property
    def worker(self) -> Process:
        """Who serves it."""
        port = self._http.sock.getsockname()[1]
        rest = self._server.ports["rest_api_port"]
        found = wait_for(lambda: connections.server_of(workers(self._server), rest, port), 5, "somebody accepts")
        assert found is not None
        return found

    def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        self._http.request(method, target, body)
        response = self._http.getresponse()
        return response.status, response.read()

    def predict(self, model: str) -> int:
        return self.ask("POST", f"/v1/models/{model}:predict", BODY)[0]

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def connect() -> Iterator[Callable[[BridgeServer], dict[int, Connection]]]:
    """Opens a connection to each worker of a server, by its process."""
    opened: list[Connection] = []

    def connect(server: BridgeServer) -> dict[int, Connection]:
        found: dict[int, Connection] = {}
        for _ in range(64):
            connection = Connection(server)
            opened.append(connection)
            found.setdefault(connection.worker.pid, connection)
            if len(found) == len(workers(server)):
                return found
        raise AssertionError(f"64 connections reached {len(found)} of {len(workers(server))} workers")

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("models")
    for name in ("a", "b"):
        export(base / name, 1)
    return base


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[BridgeServer]:
    tmp_path = tmp_path_factory.mktemp("server")
    monitoring = tmp_path / "monitoring.config"
    monitoring.write_text("prometheus_config { enable: true }")
    flags = ("--model_name=a", f"--model_base_path={models}/a", f"--monitoring_config_file={monitoring}", TWO)
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        yield server


def metric(text: str, name: str) -> float:
    """The sum over all cells of a metric whose lines begin with `name`."""
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


REST_CALLS = 'bridge_requests_total{api="rest",call="predict",code="OK"}'
GRPC_CALLS = 'bridge_requests_total{api="grpc",call="Predict",code="OK"}'
TRITON_CALLS = "bridge_triton_calls_total{"
SERVED = ':tensorflow:serving:request_count{model_name="a",status="OK"}'


def counts(server: BridgeServer) -> Counter[str]:
    """What the admin port's page and TF Serving's tell."""
    admin = server.request("GET", "/metrics", to=server.admin).body.decode()
    page = server.request("GET", PAGE).body.decode()
    found = Counter({name: int(metric(admin, name)) for name in (REST_CALLS, GRPC_CALLS, TRITON_CALLS)})
    found[SERVED] = int(metric(page, SERVED))
    return found


def test_every_worker_serves_and_their_counts_add_up(
    client: OfficialClient, server: BridgeServer, connect: Callable[[BridgeServer], dict[int, Connection]]
) -> None:
    both = connect(server)
    assert len(both) == 2
    assert len({connection.ask("GET", "/v1/models/a") for connection in both.values()}) == 1
    before = counts(server)
    for connection in both.values():
        for _ in range(5):
            assert connection.predict("a") == 200
    assert client.predict(server.grpc, [1.0], name="a")["outputs"]["y"]["values"] == [1.5]
    expected = {REST_CALLS: 10, GRPC_CALLS: 1, TRITON_CALLS: 11, SERVED: 11}
    assert counts(server) - before == expected
    pages = [connection.ask("GET", PAGE) for connection in both.values()]
    assert [(status, metric(page.decode(), SERVED) - before[SERVED]) for status, page in pages] == [(200, 11)] * 2

    victim = workers(server)[0]
    victim.kill()
    wait_for(lambda: victim not in workers(server) and len(workers(server)) == 2, 5, "another worker")
    assert counts(server) - before == expected, "what a worker told outlives it"


def test_a_reload_is_acknowledged_when_every_worker_serves_by_it(
    client: OfficialClient,
    server: BridgeServer,
    models: Path,
    connect: Callable[[BridgeServer], dict[int, Connection]],
) -> None:
    both = connect(server)
    a, b = Entry("a", models / "a"), Entry("b", models / "b")
    for round in range(6):
        entries = [a, b] if round % 2 == 0 else [a]
        config = "model_config_list { " + " ".join(map(str, entries)) + " }"
        answer = client.ask(server.grpc, "reload", config=config, reason="to and fro")
        assert answer["status"] == [0, ""]
        for connection in both.values():
            assert connection.predict("b") == (200 if round % 2 == 0 else 404)
            assert connection.ask("GET", "/v1/models/b")[0] == 200
        for method, body, status in (("PUT", {"version": 1}, 200), ("DELETE", None, 400)):
            assert server.change(method, "/api/v1/label?model=a&label=stable", body).status == 200
            for connection in both.values():
                assert connection.ask("POST", "/v1/models/a/labels/stable:predict", BODY)[0] == status
    applied = server.events(action="config applied")
    assert applied[-1]["reason"] == "to and fro"
    assert applied[-1]["actor"].startswith(("ipv4:127.0.0.1:", "127.0.0.1"))
    refused = client.ask(server.grpc, "reload", config=f"model_config_list {{ {Entry('gone', models / 'gone')} }}")
    assert refused["code"] == "UNKNOWN"
    assert f"Could not find base path {models}/gone for servable gone" in refused["details"]
    late = client.ask(server.grpc, "reload", config=f"model_config_list {{ {a} {b} }}", timeout=0.001)
    assert late["code"] == "DEADLINE_EXCEEDED"


def serving(server: BridgeServer) -> float:
    """How many workers serve, as the metrics say."""
    return metric(server.request("GET", "/metrics", to=server.admin).body.decode(), "bridge_workers ")


def wait_for_another(server: BridgeServer, victim: Process) -> None:
    """Wait until two workers serve, neither of which is `victim`."""
    wait_for(lambda: victim not in workers(server) and serving(server) == 2, 10, "another worker serves")


class Hammer:
    """Requests from several threads, each on a new connection, until the block is left."""

    def __init__(self, server: BridgeServer, threads: int = 3) -> None:
        self._server = server
        self._stop = threading.Event()
        self.answers: Counter[object] = Counter()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def __enter__(self) -> Hammer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait(self, count: int, seconds: float = 20) -> None:
        goal = self.answers[200] + count
        wait_for(lambda: self.answers[200] >= goal, seconds, f"{count} more good answers")

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            try:
                answer: object = self._server.request("POST", "/v1/models/a:predict", BODY).status
            except (OSError, http.client.HTTPException) as error:
                answer = type(error).__name__
            self.answers[answer] += 1


def test_a_killed_worker_is_replaced_and_costs_only_what_it_had_in_flight(
    client: OfficialClient, server: BridgeServer, models: Path
) -> None:
    a, b = Entry("a", models / "a"), Entry("b", models / "b")
    stop = threading.Event()
    reloads: Counter[str] = Counter()

    def reload() -> None:
        for entries in itertools.cycle(([a, b], [a])):
            if stop.is_set():
                return
            config = "model_config_list { " + " ".join(map(str, entries)) + " }"
            answer = client.ask(server.grpc, "reload", config=config)
            reloads[answer.get("details", "OK")] += 1

    threads = 3
    with Hammer(server, threads) as hammer, ThreadPoolExecutor(1) as pool:
        hammer.wait(20)
        changing = pool.submit(reload)
        for _ in range(3):
            victim = workers(server)[0]
            began = time.monotonic()
            victim.kill()
            wait_for_another(server, victim)
            assert time.monotonic() - began < 5
            hammer.wait(20)
        stop.set()
        changing.result(30)
    failed = hammer.answers.total() - hammer.answers[200]
    assert failed <= 3 * threads, hammer.answers
    broken = sum(count for details, count in reloads.items() if details != "OK")
    assert broken <= 3, reloads
    assert reloads["OK"] >= 3
    assert not [status for status in hammer.answers if isinstance(status, int) and status != 200], hammer.answers
    server.wait_for_log("was killed by signal 9; another one takes its place")


def test_a_stopped_worker_holds_up_a_change_no_longer_than_its_lease(
    tmp_path: Path, models: Path, client: OfficialClient
) -> None:
    flags = ("--model_name=a", f"--model_base_path={models}/a", TWO, "--router_lease_seconds=2")
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        stopped = workers(server)[0]
        stopped.stop()
        answer = server.change("PUT", "/api/v1/label?model=a&label=stable", {"version": 1})
        assert answer.status == 200, answer
        server.wait_for_log("said nothing for", "it is killed")
        wait_for(lambda: len(workers(server)) == 2 and not stopped.alive, 5, "it was replaced")
        for _ in range(10):
            assert server.request("POST", "/v1/models/a/labels/stable:predict", BODY).status == 200


def test_workers_end_with_their_parent_and_drain_with_it(tmp_path: Path, client: OfficialClient) -> None:
    savedmodels.make("slow", tmp_path / "slow" / "1")
    flags = ("--model_name=slow", f"--model_base_path={tmp_path}/slow", TWO)
    with BridgeServer(tmp_path / "bridge", *flags) as server:
        body = b'{"inputs": {"rounds": 150}}'
        with ThreadPoolExecutor(6) as pool:
            slow = [pool.submit(server.request, "POST", "/v1/models/slow:predict", body) for _ in range(6)]
            time.sleep(0.3)
            server.signal(signal.SIGTERM)
            assert {answer.result().status for answer in slow} <= {200, 400}, [one.result() for one in slow]
        assert server.wait(30) == 0
        assert not workers_alive(server)
        server.start()
        both = workers(server)
        server.kill()
        wait_for(lambda: not any(one.alive for one in both), 5, "workers die with a killed parent")


def workers_alive(server: BridgeServer) -> bool:
    return any(WORKER in one.command for one in server.processes())


def test_a_port_in_use_ends_the_start_although_it_would_be_shared(tmp_path: Path, models: Path) -> None:
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("0.0.0.0", 0))
        stranger.listen()
        server = BridgeServer(tmp_path / "bridge", "--model_name=a", f"--model_base_path={models}/a", TWO)
        server.ports["port"] = stranger.getsockname()[1]
        server.launch()
        try:
            assert server.wait(60) == 1
            sentence = f"The gRPC address 0.0.0.0:{server.ports['port']} cannot be bound; is it in use?"
            assert sentence in server.log.read_text()
        finally:
            server.close()


def test_a_unix_socket_outlives_the_worker_that_served_it(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    server = start(TWO, f"--grpc_socket_path={tmp_path}/socket")
    address = f"unix:{tmp_path}/socket"
    for _ in range(2):
        wait_for(lambda: serving(server) == 2, 20, "two workers serve")
        assert client.predict(address, [1.0], name="numbered")["outputs"]["y"]["values"] == [1.5]
        number = (tmp_path / "socket").readlink().name.rpartition(".")[2]
        [line] = server.log_lines(f"worker-{number}-", "serves")[-1:]
        pid = int(line.split("worker-")[1].split()[0].split("-")[1])
        [victim] = [one for one in workers(server) if one.pid == pid]
        victim.kill()
        wait_for(partial(leads_elsewhere, tmp_path / "socket", number), 5, "it leads to another worker")
    assert server.terminate() == 0
    assert not list(tmp_path.glob("socket*"))


def leads_elsewhere(path: Path, number: str) -> bool:
    return path.readlink().name != f"{path.name}.{number}"


ROLLOVERS = [
    pytest.param(8, id="seconds"),
    pytest.param(300, id="minutes", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
]


@pytest.mark.parametrize("count", ROLLOVERS)
def test_versions_roll_over_every_second_without_a_failed_request(
    count: int, start: Start, tmp_path: Path, client: OfficialClient
) -> None:
    export(tmp_path / "numbered", 1)
    server = start(TWO, *QUICK)
    with client.loop(server.grpc, name="numbered") as first, client.loop(server.grpc, name="numbered") as second:
        for version in range(2, count + 2):
            began = time.monotonic()
            export(tmp_path / "numbered", version)
            time.sleep(max(0.0, 1 - (time.monotonic() - began)))
        for loop in (first, second):
            loop.wait_for_version(count + 1, 60)
    for loop in (first, second):
        assert loop.clean, loop.tally
        versions = loop.tally["versions"]
        assert versions == sorted(versions)
