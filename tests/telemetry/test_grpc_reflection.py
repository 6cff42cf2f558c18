from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from bridge.telemetry.grpc_reflection import SERVICES, reflection_services
from tests.telemetry.grpc_port import grpc_port

OURS = ("tensorflow.serving.ModelService", "tensorflow.serving.PredictionService")


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    async with grpc_port(reflection_services(OURS)) as channel:
        yield channel


async def ask(channel: grpc.aio.Channel, service: str, **question: str) -> ServerReflectionResponse:
    method = channel.stream_stream(
        f"/{service}/ServerReflectionInfo",
        request_serializer=ServerReflectionRequest.SerializeToString,
        response_deserializer=ServerReflectionResponse.FromString,
    )
    call = method()
    await call.write(ServerReflectionRequest(**question))
    await call.done_writing()
    answer = await call.read()
    assert isinstance(answer, ServerReflectionResponse)
    return answer


@pytest.mark.parametrize("service", SERVICES)
async def test_lists_the_services(channel: grpc.aio.Channel, service: str) -> None:
    answer = await ask(channel, service, list_services="")
    assert [item.name for item in answer.list_services_response.service] == sorted([*OURS, *SERVICES])


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "symbol",
    [
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService.HandleReloadConfigRequest",
        "tensorflow.TensorProto",
        "google.protobuf.Any",
        "grpc.health.v1.Health",
        "inference.GRPCInferenceService",
        "inference.ModelInferRequest",
        *SERVICES,
    ],
)
async def test_describes_what_clients_meet(channel: grpc.aio.Channel, service: str, symbol: str) -> None:
    answer = await ask(channel, service, file_containing_symbol=symbol)
    files = [FileDescriptorProto.FromString(data) for data in answer.file_descriptor_response.file_descriptor_proto]
    pool = DescriptorPool()
    for file in _dependencies_first(files):
        pool.Add(file)
    asked = files[0]
    assert pool.FindFileByName(asked.name)
    declared = [f"{asked.package}.{item.name}" for item in (*asked.message_type, *asked.service)]
    assert any(symbol == name or symbol.startswith(f"{name}.") for name in declared)


async def test_unknown_symbols_are_not_found(channel: grpc.aio.Channel) -> None:
    answer = await ask(channel, SERVICES[0], file_containing_symbol="tensorflow.serving.Nothing")
    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def _dependencies_first(files: list[FileDescriptorProto]) -> list[FileDescriptorProto]:
    by_name = {file.name: file for file in files}
    ordered: dict[str, FileDescriptorProto] = {}

    def visit(file: FileDescriptorProto) -> None:
        for name in file.dependency:
            visit(by_name[name])
        ordered.setdefault(file.name, file)

    for file in files:
        visit(file)
    return list(ordered.values())
