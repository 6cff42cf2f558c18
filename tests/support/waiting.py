"""Waiting for a state with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.02


def wait_for(look: Callable[[], T], seconds: float, what: str) -> T:
    """The first true value of `look`. Fails the test with `what` and the last value after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, f"after {seconds:g} s still not: {what}; the last look gave {value!r}"
        time.sleep(LOOK_SECONDS)
    return value
