from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.official_client import OfficialClient


@pytest.fixture(scope="session")
def client() -> Iterator[OfficialClient]:
    """The official client; its process imports TensorFlow once."""
    with OfficialClient() as client:
        yield client
