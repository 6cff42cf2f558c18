from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tfserving.conftest import half_plus_two
from tests.tfserving.server_thread import ServerThread


@pytest.fixture(scope="session")
def server() -> Iterator[ServerThread]:
    server = ServerThread()
    server.publish(half_plus_two())
    yield server
    server.close()
