"""How the request path tells of its calls, without knowing who counts them."""

from __future__ import annotations

from collections.abc import Callable

from bridge.errors import Code

RequestObserver = Callable[[str, Code, float], None]
"""Told the name of the call, its status and its seconds, once for each answered request."""

CallObserver = Callable[[str, float], None]
"""Told the outcome of a call to one Triton instance, and its seconds."""


def unobserved(call: str, code: Code, seconds: float) -> None:
    """Nobody counts."""


def uncounted(outcome: str, seconds: float) -> None:
    """Nobody counts."""
