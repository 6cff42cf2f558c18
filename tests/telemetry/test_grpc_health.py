from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from bridge.telemetry.grpc_health import SERVICE, HealthService
from tests.telemetry.grpc_port import grpc_port

NAMES = ("", "ModelService", "PredictionService")


@pytest.mark.parametrize("name", NAMES)
async def test_serving_until_shut_down(name: str) -> None:
    health = HealthService(NAMES)
    async with grpc_port({SERVICE: health.service()}) as channel:
        stub = HealthStub(channel)
        assert (await stub.Check(HealthCheckRequest(service=name))).status == HealthCheckResponse.SERVING
        health.shut_down()
        assert (await stub.Check(HealthCheckRequest(service=name))).status == HealthCheckResponse.NOT_SERVING


@pytest.mark.parametrize("name", ["tensorflow.serving.PredictionService", "predictionservice", "half"])
async def test_other_names_are_not_found(name: str) -> None:
    async with grpc_port({SERVICE: HealthService(NAMES).service()}) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HealthStub(channel).Check(HealthCheckRequest(service=name))
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "service name unknown")


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("ModelService", [HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING]),
        ("half", [HealthCheckResponse.SERVICE_UNKNOWN]),
    ],
)
async def test_watches_end_with_the_service(name: str, statuses: list[int]) -> None:
    health = HealthService(NAMES)
    async with grpc_port({SERVICE: health.service()}) as channel, asyncio.timeout(10):
        watch = HealthStub(channel).Watch(HealthCheckRequest(service=name))
        seen = []
        async for answer in watch:
            seen.append(answer.status)
            health.shut_down()
    assert seen == statuses
