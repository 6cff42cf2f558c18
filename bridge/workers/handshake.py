"""How a worker begins: it hears what it is to do, says hello, and tells how the opening of its ports went.

The first line to a worker is `start`, a pickled WorkerStart: it comes from the parent over a socket pair that nobody
else has. The worker's first line is `hello`; then both ends talk as `bridge.serving.link` says, with `ready` (the ports
by name) or `refused` ([code, text]) from the worker.
"""

from __future__ import annotations

import asyncio
import pickle
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.access_inputs import AccessInputs
from bridge.client_inputs import ClientInputs

HELLO = b"hello\n"
PAGE = ("", "page")
"""Service and method by which the control process gives TF Serving's Prometheus page."""


@dataclass(frozen=True)
class WorkerStart:
    """What a worker is told. `rpcs` are the methods that the control process answers, by service; with `routed` there
    is a snapshot to wait for before ports open."""

    name: str
    inputs: ClientInputs
    access: AccessInputs
    rpcs: Mapping[str, Sequence[str]]
    routed: bool


def written(start: WorkerStart) -> bytes:
    """The first line to a worker."""
    return b"start %s\n" % b64encode(pickle.dumps(start))


async def read(reader: asyncio.StreamReader) -> WorkerStart:
    """The first line from the parent. Raises EOFError where that is gone."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the parent hung up")
    start: WorkerStart = pickle.loads(b64decode(line.partition(b" ")[2]))
    return start
