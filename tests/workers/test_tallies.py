"""Counts of several processes as one."""

from __future__ import annotations

import asyncio
import json

from bridge.errors import Code
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.request_parts import Meters
from bridge.serving.link import LinkHub
from bridge.serving.observer import Answered, Entrypoint
from bridge.telemetry.metrics import Metrics
from bridge.tfserving.metrics import ServingMetrics
from bridge.workers import tallies
from bridge.workers.tallies import TallyClient, TallyServer
from tests.workers.linked import NoControl, served

NAME = "half \udcff"
"""A model's name that is no UTF-8."""


def meters() -> Meters:
    mesh = MeshMetrics(per_model=True)
    return Meters(Metrics(mesh), ServingMetrics(), mesh)


def count(meters: Meters, seconds: float = 0.25) -> None:
    """One request in all metrics."""
    meters.own.requests("grpc")("Predict", Code.OK, seconds)
    meters.own.triton_calls("one", "http")("ok", seconds)
    meters.serving.answered(Answered(Entrypoint.GRPC, "Predict", NAME, Code.OK, seconds))
    meters.serving.ran("Predict", NAME, seconds)
    meters.serving.examples(NAME, 3)
    meters.mesh.requested("Predict", Code.OK, seconds, 100, 200, ("m", "v"))
    meters.mesh.invoked("Predict", seconds, ("m", "v"))


def pages(meters: Meters) -> tuple[list[bytes], bytes]:
    """What is shown; the page of the process itself is left out."""
    own = [line for line in meters.own.page().splitlines() if b"process_" not in line]
    return own, meters.serving.page()


def test_what_is_taken_and_merged_is_as_if_counted_in_one_process() -> None:
    one, other, expected = meters(), meters(), meters()
    for seconds in (0.001, 0.25, 7.0):
        count(other, seconds)
        count(expected, seconds)
    count(one, 0.5)
    one.merge(json.loads(json.dumps(other.take())))
    count(other, 0.125)
    one.merge(json.loads(json.dumps(other.take())))
    for seconds in (0.5, 0.125):
        count(expected, seconds)
    assert other.take() == {}
    assert set(pages(one)[0]) == set(pages(expected)[0])
    assert pages(one)[1] == pages(expected)[1]


async def test_a_page_has_the_newest_counts_of_every_worker() -> None:
    total = meters()
    server = TallyServer(total, lambda: hub.routers)
    hub = LinkHub(NoControl(), words=server.words)
    total.own.refresh_by(server.collect)
    async with served(hub, "worker-1") as (first, listen_first), served(hub, "worker-2") as (second, listen_second):
        workers = []
        for lines, listen in ((first, listen_first), (second, listen_second)):
            mine = meters()
            listen({"collect": TallyClient(mine, lines).collect})
            workers.append(mine)
        for rounds in (1, 2, 3):
            for mine in workers:
                count(mine)
            page = (await total.own.read()).decode()
            assert f'bridge_requests_total{{api="grpc",call="Predict",code="OK"}} {2 * rounds}.0' in page
    assert 'code="OK"} 6.0' in (await total.own.read()).decode(), "what a worker counted outlives it"


async def test_a_worker_that_does_not_answer_holds_up_a_page_for_a_moment_only() -> None:
    total = meters()
    server = TallyServer(total, lambda: hub.routers)
    hub = LinkHub(NoControl(), words=server.words)
    async with served(hub) as (_, listen):
        listen({})
        async with asyncio.timeout(10 * tallies.PATIENCE):
            await server.collect()
