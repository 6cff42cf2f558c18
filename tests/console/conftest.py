from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.admin_server import AdminServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    server = AdminServer(tmp_path / "bridge.db")
    try:
        yield server
    finally:
        server.close()
