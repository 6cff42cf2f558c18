"""A state directory with a database, the `bridge` commands run on it, and a server's admin API that lives in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from bridge.cli.main import main
from bridge.state_dir import StateDir
from tests.console.admin_server import AdminServer


class StatePlace:
    """Runs commands on the state directory `path`; `group` are the words that each begins with."""

    group: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path

    def run(self, *arguments: str, code: int = 0, environment: Mapping[str, str] | None = None) -> Result:
        env = {"BRIDGE_STATE_DIR": str(self.path), **(environment or {})}
        result = CliRunner().invoke(main, [*self.group, *arguments], env=env)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def lines(self, *arguments: str) -> list[list[str]]:
        """The table without its header."""
        return [line.split("\t") for line in self.run(*arguments).stdout.splitlines()[1:]]

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)


@contextmanager
def live_server(path: Path) -> Iterator[AdminServer]:
    """A server lives in the state directory, as commands find it."""
    state = StateDir(path)
    state.acquire()
    server = AdminServer(state.database_path)
    state.write_server({"admin": server.port})
    try:
        yield server
    finally:
        server.close()
        state.release()
