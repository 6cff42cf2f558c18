"""Tables on a terminal; the rest is seen by the tests of the commands."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = (
    "from bridge.cli import output;"
    "output.tell_table(('MODEL', 'PATH'), [('[bold]half[/bold]', '/a b/c'), ('esc\\x1b[2J', 'x')])"
)


def on_a_terminal(script: str) -> str:
    """What a Python script writes to a terminal of 80 columns."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "NO_COLOR": "1"}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=theirs, env=environment)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 4096):
            written += chunk
    except OSError:
        pass  # Linux ends a terminal whose last writer has closed it with an error.
    finally:
        os.close(ours)
    assert process.wait(30) == 0
    return written.decode()


def test_a_terminal_gets_a_table_and_nothing_that_moves_its_cursor() -> None:
    lines = on_a_terminal(SCRIPT).splitlines()
    assert any("MODEL" in line and "PATH" in line for line in lines)
    assert any("─" in line for line in lines)
    assert any("[bold]half[/bold]" in line and "/a b/c" in line for line in lines)
    assert any(r"esc\x1b[2J" in line for line in lines)
    assert not any("\x1b[2J" in line or "\t" in line for line in lines)
