"""Control of one Triton instance: its index, loads, unloads, and who its runners are. Every call has a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self

import grpc.aio
import orjson
import tritonclient.grpc.aio
from tritonclient.utils import InferenceServerException

from bridge.errors import Code, DeadlineExceeded
from bridge.serving.routes import InstanceRoute
from bridge.triton import errors, loading
from bridge.triton.calls import CallError, Fault, ModelCall, WireTensor
from bridge.triton.channel import cancelled_by_caller, channel_options
from bridge.triton.grpc_leg import GrpcLeg
from bridge.triton.loading import FailureKind, LoadFailure
from bridge.triton.tls import TlsFiles

__all__ = ["FailureKind", "IndexEntry", "LoadFailure", "RunnerInfo", "ServerMetadata", "TritonInstance"]

CALL_SECONDS = 5.0
"""Deadline of a call that only reads. Triton answers such calls on one thread, so one slow disk holds up all."""

WATCH_SECONDS = 3.0
"""Between two questions whether the runner of a call still lives."""

FIRST_PAUSE, LAST_PAUSE = 0.02, 0.25
"""Seconds between two looks at the index, at first and after some."""

_STATES = ("", "UNAVAILABLE", "UNLOADING", "LOADING", "READY")
_PING = WireTensor("bridge.noop", "UINT8", (1,), b"\0")
_RUNNER = "bridge.runner"
_MEMORY = ("device_bytes", "available_bytes", "available_device_bytes")


class IndexEntry(NamedTuple):
    """One model in Triton's index. `state` is empty for a directory that was never loaded, `reason` says why not."""

    state: str
    reason: str


class ServerMetadata(NamedTuple):
    """`name` is what --id set, `version` Triton's own (`2.51.0`)."""

    name: str
    version: str
    extensions: tuple[str, ...]


class RunnerInfo(NamedTuple):
    """What a runner says of itself: its version, that of its TensorFlow, its process, its memory, what is left of it.

    Memory is in bytes, resident on the host and on GPUs; 0 is not known, as with runners that are older.
    """

    version: str
    tensorflow: str
    pid: int
    memory_bytes: int
    device_bytes: int = 0
    available_bytes: int = 0
    available_device_bytes: int = 0

    @property
    def bytes(self) -> int:
        """What it takes of the memory that counts: that of GPUs where it is on one, else the host's."""
        return self.device_bytes or self.memory_bytes


Permission = Callable[[], Awaitable[None]]


async def _permitted() -> None:
    """Who has an instance to itself may always change it."""


class TritonInstance:
    """The control leg over gRPC. Its calls raise CallError where nothing else is said; `load` raises LoadFailure."""

    def __init__(self, route: InstanceRoute, permission: Permission = _permitted) -> None:
        self._permission = permission
        self.name = route.name
        self.address = route.grpc
        tls = TlsFiles.from_mapping(route.tls)
        self._headers = {name.lower(): value for name, value in route.headers.items()}
        self._client = tritonclient.grpc.aio.InferenceServerClient(
            route.grpc,
            creds=tls.channel_credentials() if tls else None,
            channel_args=channel_options(tls),
        )
        self._leg = GrpcLeg(route.grpc, tls, route.headers)

    @classmethod
    def connect(cls, route: InstanceRoute, permission: Permission = _permitted) -> Self:
        """The instance that `route` reaches by gRPC. Needs the running event loop; connects with its first call.

        `permission` is awaited before whatever changes the instance: it returns while this process may do that.
        """
        return cls(route, permission)

    async def server_metadata(self, timeout: float = CALL_SECONDS) -> ServerMetadata:
        answer = await self._call(self._client.get_server_metadata, timeout=timeout)
        return ServerMetadata(answer.name, answer.version, tuple(answer.extensions))

    async def server_ready(self, timeout: float = CALL_SECONDS) -> bool:
        """Under --strict-readiness, Triton's default, one failed load makes this false for good."""
        return bool(await self._call(self._client.is_server_ready, timeout=timeout))

    async def model_ready(self, name: str, timeout: float = CALL_SECONDS) -> bool:
        """Triton's opinion, which before 26.01 does not notice a dead runner: `ping` does."""
        return bool(await self._call(self._client.is_model_ready, name, timeout=timeout))

    async def model_outputs(self, name: str, timeout: float = CALL_SECONDS) -> tuple[str, ...]:
        """Names of the outputs that a loaded model has."""
        answer = await self._call(self._client.get_model_metadata, name, timeout=timeout)
        return tuple(output.name for output in answer.outputs)

    async def index(self, timeout: float = CALL_SECONDS) -> dict[str, IndexEntry]:
        """Every model directory that Triton sees, by name, in one call. Of several versions the liveliest counts."""
        answer = await self._call(self._client.get_model_repository_index, timeout=timeout)
        entries: dict[str, IndexEntry] = {}
        for row in answer.models:
            entry = IndexEntry(row.state, row.reason)
            known = entries.get(row.name)
            if known is None or _STATES.index(known.state) < _STATES.index(entry.state):
                entries[row.name] = entry
        return entries

    async def load(self, name: str, timeout: float) -> None:
        """Return once `name` is READY; a model that is loaded and unchanged stays as it is. Raises LoadFailure.

        A load outlives its call: where the call ended without Triton's verdict, the index tells what became of it.
        """
        await self._permission()
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            await self._request(self._client.load_model, name, timeout=timeout)
        except InferenceServerException as exception:
            error = self._error(exception)
            if error.fault is not Fault.CONNECTION:
                raise loading.from_text(exception.message(), _code(exception)) from None
            if not error.sent:
                raise loading.from_call(error) from None
            await self._await_load(name, timeout, deadline)
        except CallError as error:
            raise loading.from_call(error) from None

    async def unload(self, name: str, timeout: float) -> None:
        """Return once requests in flight are done and Triton let go of `name`, also if it never knew it.

        Raises CallError, or DeadlineExceeded with the state in which the model still is. With a dead runner Triton
        24.10 often stays UNLOADING for good: `abandon` such a model.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self.abandon(name, timeout)
        pause = FIRST_PAUSE
        while (state := (await self.index()).get(name, IndexEntry("", "")).state) not in ("", "UNAVAILABLE"):
            if loop.time() > deadline:
                raise DeadlineExceeded(f"Triton at {self.address} has {name} {state} {timeout:g} s after its unload")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)

    async def abandon(self, name: str, timeout: float = CALL_SECONDS) -> None:
        """Ask Triton to let go of a model whose runner died, without waiting for the end of it.

        Requests that the dead runner never answers keep such a model UNLOADING, maybe for ever; a load works at once
        all the same, while without this unload it would be a no-op.
        """
        await self._permission()
        await self._call(self._client.unload_model, name, timeout=timeout)

    async def ping(self, name: str, timeout: float = CALL_SECONDS) -> RunnerInfo:
        """Ask the runner of a loaded model itself, behind the requests that wait for it."""
        (output,) = await self._leg.infer(ModelCall(name, [_PING], [_RUNNER]), timeout)
        try:
            answer = orjson.loads(bytes(output.data[4:]))
            memory = {name: answer[name] for name in _MEMORY if name in answer}
            return RunnerInfo(answer["runner"], answer["tensorflow"], answer["pid"], answer["memory_bytes"], **memory)
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            sentence = f"the runner of {name} describes itself in a way that cannot be read: {error}"
            raise CallError(sentence, Code.INTERNAL, Fault.RUNNER) from None

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        """Run `call` outside of the request path, which may not know the model yet.

        Raises CallError, also for a runner that dies meanwhile: Triton may never answer then.
        """
        answer = asyncio.ensure_future(self._leg.infer(call, timeout))
        try:
            while not (await asyncio.wait((answer,), timeout=WATCH_SECONDS))[0]:
                await self._require_runner(call.model)
            return answer.result()
        finally:
            answer.cancel()

    async def close(self) -> None:
        await self._client.close()
        await self._leg.close()

    async def _require_runner(self, name: str) -> None:
        """Raises CallError if Triton says that the runner of a model died. A busy one may be slow to answer."""
        try:
            await self.ping(name)
        except CallError as error:
            if error.fault is Fault.RUNNER:
                raise

    async def _await_load(self, name: str, timeout: float, deadline: float) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                entry = (await self.index()).get(name, IndexEntry("", ""))
            except CallError as error:
                raise loading.from_call(error) from None
            if entry.state == "READY":
                return
            if entry.state != "LOADING":
                raise loading.from_text(entry.reason or f"Triton at {self.address} forgot the load", Code.UNAVAILABLE)
            if asyncio.get_running_loop().time() > deadline:
                sentence = f"Triton at {self.address} has not loaded {name} within {timeout:g} s"
                raise LoadFailure(FailureKind.PLATFORM, Code.DEADLINE_EXCEEDED, sentence)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)

    async def _call(self, method: Callable[..., Awaitable[Any]], *args: str, timeout: float) -> Any:
        try:
            return await self._request(method, *args, timeout=timeout)
        except InferenceServerException as exception:
            raise self._error(exception) from None

    async def _request(self, method: Callable[..., Awaitable[Any]], *args: str, timeout: float) -> Any:
        try:
            return await method(*args, headers=self._headers, client_timeout=timeout)
        except asyncio.CancelledError:
            if cancelled_by_caller():
                raise
            raise errors.lost(self.address, "the bridge closed its connection") from None
        except grpc.aio.UsageError as error:
            raise errors.unreachable(self.address, str(error)) from None

    def _error(self, exception: InferenceServerException) -> CallError:
        return errors.from_grpc(_code(exception), exception.message(), self.address)


def _code(exception: InferenceServerException) -> Code:
    """tritonclient keeps gRPC's status as the text `StatusCode.NAME`."""
    return Code[str(exception.status()).removeprefix("StatusCode.")]
