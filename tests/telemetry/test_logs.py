from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from bridge.telemetry import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """`configure` owns the root logger, which pytest needs back."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def test_a_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    logging.getLogger("bridge.test").info("model %s is odd", "a\nb\r\x1b[31m")
    logging.getLogger("bridge.test").debug("not told")
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO bridge\.test: model a\\nb\\r\\x1b\[31m is odd", line
    )


def test_a_traceback_follows_its_record(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("error")
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logging.getLogger("bridge.test").exception("failed")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("ERROR bridge.test: failed")
    assert lines[1] == "Traceback (most recent call last):"


@pytest.mark.parametrize("level", ["debug", "info"])
def test_chatty_libraries_are_quiet(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level)
    for name in ("alembic.runtime.migration", "asyncio"):
        logging.getLogger(name).info("chatter")
    assert capsys.readouterr().err == ""
