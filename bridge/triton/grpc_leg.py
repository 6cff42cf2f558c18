"""The gRPC leg: inference by ModelInfer with raw contents, where HTTP is closed or the message too large for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2

from bridge.errors import Code
from bridge.triton import errors
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.channel import cancelled_by_caller, metadata, open_channel
from bridge.triton.http_messages import microseconds
from bridge.triton.outputs import byte_size, ordered
from bridge.triton.tls import TlsFiles

MESSAGE_BYTES = 2**31 - 2**20
"""A protocol buffer ends at 2 GiB; what is left is for names and shapes."""

_SERVICE = "/inference.GRPCInferenceService/"


class GrpcLeg:
    """An InferenceLeg over gRPC. `headers` go as metadata with every request."""

    def __init__(self, address: str, tls: TlsFiles | None = None, headers: Mapping[str, str] | None = None) -> None:
        self._address = address
        self._metadata = metadata(headers or {})
        self._channel = open_channel(address, tls)
        self._infer = self._channel.unary_unary(
            f"{_SERVICE}ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        response = await self._call(self._infer, _request(call, timeout), timeout)
        return ordered(_outputs(response), call.outputs)

    async def forward(self, method: str, request: bytes, timeout: float) -> bytes:
        answer: bytes = await self._call(self._channel.unary_unary(f"{_SERVICE}{method}"), request, timeout)
        return answer

    async def stream(self, request: bytes, timeout: float) -> AsyncIterator[bytes]:
        rpc: Any = self._channel.stream_stream(f"{_SERVICE}ModelStreamInfer")
        with self._faults():
            async for response in rpc(_alone(request), timeout=timeout, metadata=self._metadata):
                yield response

    async def close(self) -> None:
        await self._channel.close()

    async def _call(self, rpc: Any, request: Any, timeout: float) -> Any:
        with self._faults():
            return await rpc(request, timeout=timeout, metadata=self._metadata)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn what the channel raises into CallError."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            code = Code(error.code().value[0])
            raise errors.from_grpc(code, error.details() or "", self._address) from None
        except grpc.aio.UsageError as error:
            raise errors.unreachable(self._address, str(error)) from None
        except asyncio.CancelledError:
            if cancelled_by_caller():
                raise
            raise errors.lost(self._address, "the bridge closed its connection") from None


async def _alone(request: bytes) -> AsyncIterator[bytes]:
    yield request


def _request(call: ModelCall, timeout: float) -> Any:
    if sum([byte_size(tensor.data) for tensor in call.inputs]) > MESSAGE_BYTES:
        sentence = f"the tensors of one request to Triton may not pass {MESSAGE_BYTES} bytes"
        raise CallError(sentence, Code.RESOURCE_EXHAUSTED, Fault.MODEL, sent=False)
    request = service_pb2.ModelInferRequest(model_name=call.model, id=call.request_id)
    request.parameters["timeout"].int64_param = microseconds(timeout)
    for name, value in call.parameters.items():
        request.parameters[name].string_param = value
    for tensor in call.inputs:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(bytes(tensor.data))
    for name in call.outputs:
        request.outputs.add(name=name)
    return request


def _outputs(response: Any) -> dict[str, WireTensor]:
    return {
        output.name: WireTensor(output.name, output.datatype, tuple(output.shape), data)
        for output, data in zip(response.outputs, response.raw_output_contents, strict=True)
    }
