"""A control plane in a process of its own: publishes what it is told on stdin, prints what routers tell it.

`python -m tests.serving.control_plane_process SOCKET`; each line of stdin is `VERSION INSTANCE` (publish half_plus_two
VERSION on INSTANCE, `-` for none) or `lose INSTANCE`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from bridge.serving.link_socket import LinkServer
from tests.serving import snapshots


def tell(*words: Any) -> None:
    print(orjson.dumps(words).decode(), flush=True)


class Teller:
    """A Control that prints what it is told."""

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        tell("failure", triton_name, instance, reason)

    def drained(self, router: str, epoch: int) -> None:
        tell("drained", router, epoch)

    def load_on_demand(self, model_id: str) -> None:
        tell("demand", model_id)

    def used(self, model_id: str, count: int) -> None:
        tell("used", model_id, count)


async def main(path: Path) -> None:
    server = LinkServer(path, Teller())
    await server.start()
    tell("listening")
    epoch = time.time_ns()
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, instance = line.split()
        if word == "lose":
            server.lose("tfs.00000000.half.1", instance)
            continue
        epoch += 1
        copies = () if instance == "-" else (instance,)
        model = snapshots.model("half", [snapshots.servable(version=int(word), instances=copies)])
        server.publish(snapshots.routes(model, epoch=epoch))
        tell("published", epoch)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
