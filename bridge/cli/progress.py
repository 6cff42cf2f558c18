"""How far long work has come, on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

QUIET_SECONDS = 1.0
"""Nothing is said about work that takes no longer."""

TERMINAL_SECONDS = 0.2
FILE_SECONDS = 10.0
"""How often something is said."""


class Progress:
    """Says how many `things` are done: on one line of a terminal, in a line now and then elsewhere."""

    def __init__(self, things: str) -> None:
        self._things = things
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + QUIET_SECONDS
        self._shown = False

    def of(self, done: int, total: int) -> None:
        """`total` is 0 where nobody knows it."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (TERMINAL_SECONDS if self._terminal else FILE_SECONDS)
        share = f" of {total} ({100 * done // total} %)" if total else ""
        self.say(f"{done}{share} {self._things}")

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Say `text` if what happens meanwhile takes long."""
        timer = threading.Timer(QUIET_SECONDS, self.say, (text,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def say(self, text: str) -> None:
        """One line of progress."""
        if self._terminal:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            self._shown = True
        else:
            click.echo(text, err=True)

    def end(self) -> None:
        """Leave the terminal's line to what follows."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
