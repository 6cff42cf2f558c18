"""Calls that were denied, as the history tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.registry.events import Event


@dataclass(frozen=True)
class CallDenied(Event):
    """One management call was denied. `method` names it as its port does, `code` is canonical."""

    action = "call denied"
    port: str
    method: str
    scope: str
    code: str
    message: str


@dataclass(frozen=True)
class CallsDenied(Event):
    """Calls of one actor to one method were denied within one minute, counted by canonical code.

    `first` and `last` are microseconds UTC. Of a management method these are the calls past what is written singly.
    """

    action = "calls denied"
    port: str
    method: str
    scope: str
    count: int
    codes: Mapping[str, int]
    first: int
    last: int
