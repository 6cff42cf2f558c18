"""What long work says of itself."""

from __future__ import annotations

import pytest

from bridge.cli import progress
from bridge.cli.progress import Progress
from tests.support.waiting import wait_for


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress("events verified")
    shown.of(1, 2)
    with shown.waiting("the server verifies"):
        pass
    shown.end()
    assert capsys.readouterr() == ("", "")


def test_long_work_says_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "FILE_SECONDS", 0.0)
    shown = Progress("events verified")
    shown.of(1000, 4000)
    shown.of(2000, 0)
    said = ""

    def is_told() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "server" in said

    with shown.waiting("the server verifies"):
        wait_for(is_told, 5, "it says so")
    assert said == "1000 of 4000 (25 %) events verified\n2000 events verified\nthe server verifies\n"


def test_a_terminal_has_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = Progress("events verified")
    shown.of(1000, 4000)
    shown.end()
    assert capsys.readouterr().err == "\r\x1b[K1000 of 4000 (25 %) events verified\r\x1b[K"
