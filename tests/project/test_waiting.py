"""Python 3.11's asyncio.wait_for forgets a cancellation that comes together with the end of what it waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("package", ["bridge", "model_repo_sync"])
def test_asyncio_timeout_is_used_instead(package: str) -> None:
    users = [path for path in (ROOT / package).rglob("*.py") if "asyncio.wait_for(" in path.read_text()]
    assert not users, "write `async with asyncio.timeout(…)`: a stop would hang on a task that goes on"
