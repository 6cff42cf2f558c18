"""The compiled part of the runner: one run of a session in one call.

It is optional. Where it was not built for this Python, as in a copy of the package for another Triton's, `RUN` is None
and ctypes gives the same answers, more slowly.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, float, list[Any]]]


def _load() -> Run | None:
    try:
        run: Run = importlib.import_module("._run", __name__).run
    except ImportError:
        return None
    return run


RUN = _load()
