"""gRPC server reflection over the private descriptor pool, for grpcurl and its like."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from tritonclient.grpc import model_config_pb2, service_pb2

from bridge.tfserving.messages import parse
from bridge.tfserving.rpc import Caller, Service, Services
from model_repo_sync.protos import fill

ALPHA = "grpc.reflection.v1alpha"
STABLE = "grpc.reflection.v1"
SERVICES = tuple(f"{package}.ServerReflection" for package in (STABLE, ALPHA))
"""Both names of one protocol: clients try the first and fall back to the second."""


def reflection_services(services: Sequence[str]) -> Services:
    """The reflection services of a server with `services`, which they list beside themselves."""
    servicer = _Servicer([*services, *SERVICES], pool=cast(DescriptorPool, _Symbols(_pool())))
    service = Service(streams={"ServerReflectionInfo": servicer.answers})
    return dict.fromkeys(SERVICES, service)


class _Servicer(aio.ReflectionServicer):
    async def answers(self, requests: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        messages = (parse(ServerReflectionRequest, request) async for request in requests)
        responses = cast(AsyncIterator[ServerReflectionResponse], self.ServerReflectionInfo(messages, None))
        async for response in responses:
            yield response.SerializeToString()


class _Symbols:
    """A pool in which methods are symbols too: that of protobuf's C library finds no file for them."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:
        """Raises KeyError."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            return self._pool.FindMethodByName(symbol).containing_service.file


def _pool() -> DescriptorPool:
    """Every message that this server knows, with those of health and reflection themselves."""
    pool = DescriptorPool()
    fill(pool)
    pool.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(reflection_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_stable_reflection())
    for file in (model_config_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    return pool


def _stable_reflection() -> bytes:
    """grpc/reflection/v1/reflection.proto: v1alpha under another package."""
    file = FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
    file.name = "grpc/reflection/v1/reflection.proto"
    file.package = STABLE
    for message in file.message_type:
        for field in filter(lambda field: field.type_name, message.field):
            field.type_name = _stable(field.type_name)
    for service in file.service:
        for method in service.method:
            method.input_type, method.output_type = _stable(method.input_type), _stable(method.output_type)
    return file.SerializeToString()


def _stable(type_name: str) -> str:
    return type_name.replace(f".{ALPHA}.", f".{STABLE}.")
