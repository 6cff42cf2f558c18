"""`bridge` that is killed at a point in its work: `python -m tests.acceptance.fragile_server FUSE serve …`.

The file FUSE holds the name of the point, of `POINTS`; it is read when a point is passed, and removed when it counts.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge.cli.main import main
from bridge.lifecycle.cache_instance import ControlledInstance
from bridge.registry.registry import Registry

POINTS: dict[str, tuple[type, str, bool]] = {
    "the change is wanted": (Registry, "set_vmodel", False),
    "the change is written": (Registry, "set_vmodel", True),
    "a load begins": (ControlledInstance, "load", False),
    "a load has ended": (ControlledInstance, "load", True),
    "a failed load is to be recorded": (Registry, "record_load_failure", False),
    "a failed load is recorded": (Registry, "record_load_failure", True),
    "the promotion begins": (Registry, "promote_vmodel", False),
    "the promotion is written": (Registry, "promote_vmodel", True),
    "the failure of the transition is to be written": (Registry, "fail_vmodel", False),
    "the failure of the transition is written": (Registry, "fail_vmodel", True),
    "an unload begins": (ControlledInstance, "unload", False),
    "an unload has ended": (ControlledInstance, "unload", True),
}
"""The class and method of each point, and whether it lies behind the call."""


def _break_at(fuse: Path, point: str) -> None:
    kind, name, behind = POINTS[point]
    call = getattr(kind, name)

    def pass_by(here: bool) -> None:
        if here is behind and fuse.exists() and fuse.read_text() == point:
            fuse.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, name, _asynchronous(call, pass_by) if inspect.iscoroutinefunction(call) else _plain(call, pass_by))


def _plain(call: Callable[..., Any], pass_by: Callable[[bool], None]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        pass_by(False)
        try:
            return call(*args, **kwargs)
        finally:
            pass_by(True)

    return wrapped


def _asynchronous(call: Callable[..., Any], pass_by: Callable[[bool], None]) -> Callable[..., Any]:
    @functools.wraps(call)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        pass_by(False)
        try:
            return await call(*args, **kwargs)
        finally:
            pass_by(True)

    return wrapped


if __name__ == "__main__":
    for point in POINTS:
        _break_at(Path(sys.argv[1]), point)
    main(sys.argv[2:])
