from __future__ import annotations

import pytest

from model_repo_sync.runner.tensorflow_engine.description import anonymous_memory


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("VmRSS:\t  300 kB\nRssAnon:\t    1234 kB\nRssFile:\t 9 kB\n", 1234 * 1024),
        ("VmRSS:\t  300 kB\n", 0),
        ("", 0),
    ],
)
def test_anonymous_memory(status: str, expected: int) -> None:
    assert anonymous_memory(status) == expected
