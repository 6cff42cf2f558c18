"""One inference call on one Triton instance, whatever the transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from bridge.errors import BridgeError, Code


class WireTensor(NamedTuple):
    """A tensor under Triton's names: `datatype` such as FP32 or BYTES, `data` raw little-endian bytes."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


class ModelCall(NamedTuple):
    """What is asked of one Triton model: outputs are always named, since Triton takes none as all.

    `repeatable` tells that it makes no difference whether the model runs once or twice.
    """

    model: str
    inputs: Sequence[WireTensor]
    outputs: Sequence[str]
    parameters: Mapping[str, str] = MappingProxyType({})
    request_id: str = ""
    repeatable: bool = False


class Fault(Enum):
    """Who is to blame for a failed call, so that the request path knows whether another try can help."""

    MODEL = "model"
    """TensorFlow or the model rejected the request: the answer is final."""
    NOT_READY = "not ready"
    """Nothing ran: Triton does not know the model or it is not at ready state. Resolve again."""
    RUNNER = "runner"
    """The runner's process died; whether the request ran is unknown."""
    CONNECTION = "connection"
    """Triton could not be reached or went away; whether the request ran is unknown unless `sent` is False."""
    BUSY = "busy"
    """The queue is full or the request waited too long in it; nothing ran."""


class CallError(BridgeError):
    """A failed call. `message` is TensorFlow's own text where TensorFlow spoke."""

    def __init__(self, message: str, code: Code, fault: Fault, *, sent: bool = True) -> None:
        super().__init__(message, code)
        self.fault = fault
        self.sent = sent


class InferenceLeg(Protocol):
    """A transport to one instance's inference endpoint."""

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        """Run `call` within `timeout` seconds. Outputs come in the order asked for.

        Raises CallError; past the timeout its code is DEADLINE_EXCEEDED. Cancelling the task cancels the call.
        """
        ...

    async def forward(self, method: str, request: bytes, timeout: float) -> bytes:
        """Triton's answer to a unary call of its own gRPC service, both as serialized messages.

        Raises CallError as `infer` does.
        """
        ...

    def stream(self, request: bytes, timeout: float) -> AsyncIterator[bytes]:
        """Triton's answers to one request of a ModelStreamInfer, as serialized messages.

        Raises CallError as `infer` does; what Triton says of the request comes as a message.
        """
        ...

    async def close(self) -> None: ...
