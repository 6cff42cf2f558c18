"""The map from rows to tests is whole: its tests exist, and ask a real server wherever a row has an outer surface."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conformance.checklist import CHECKLISTS, Held, Inner

ROOT = Path(__file__).resolve().parents[2]
ROWS = [(section, name) for section, rows in CHECKLISTS.items() for name in rows]


def collect(*arguments: str) -> frozenset[str]:
    """The tests that pytest finds in the files that the map names, by their path below tests/."""
    named = {test.partition("::")[0] for rows in CHECKLISTS.values() for row in rows.values() for test in row.tests}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        [*command, *(f"tests/{file}" for file in sorted(named))], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return frozenset(line.removeprefix("tests/") for line in done.stdout.splitlines() if line.startswith("tests/"))


@pytest.fixture(scope="module")
def tests() -> frozenset[str]:
    return collect()


@pytest.fixture(scope="module")
def real() -> frozenset[str]:
    """Those that need a real Triton."""
    return collect("-m", "integration")


def found(named: str, tests: Iterable[str]) -> bool:
    """Whether `named` is one of `tests`: a case, a function with its cases, or a file with all that is in it."""
    return any(test == named or test.startswith((f"{named}[", f"{named}::")) for test in tests)


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_a_row_is_held(tests: frozenset[str], real: frozenset[str], section: str, name: str) -> None:
    row = CHECKLISTS[section][name]
    assert [test for test in row.tests if not found(test, tests)] == []
    if isinstance(row, Held):
        assert any(found(test, real) for test in row.tests), "no test asks a real server"
    else:
        assert isinstance(row, Inner)
        assert row.reason
