"""The calls of the KServe V2 protocol on the request path, whatever the transport.

A SavedModel is asked by way of a session run; any other model of a Triton gets the request as it came, under its name
there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from bridge.codec.model_spec import MODELS_FIRST, ModelSpec
from bridge.errors import BridgeError, InvalidArgument, NotFound
from bridge.kserve import models, session, statistics
from bridge.kserve.forwarding import Relay, forwarded, inferred, relayed
from bridge.kserve.messages import InferRequest, InferResponse
from bridge.serving.infer import Attempt, InferenceCore, R, Send
from bridge.serving.routes import Destination, ServableRoute, V2Route
from bridge.serving.session_run import SessionRun
from bridge.triton.calls import InferenceLeg

TIMEOUT = "timeout"
"""The request parameter with the microseconds that the client waits."""
SEQUENCE = "sequence_id"
"""The request parameter that Triton's stateful models know a sequence by."""
STATISTICS_TIMEOUT = 10.0
"""Seconds that a Triton may take to tell what it counted."""


class V2Inference:
    """The calls about models. `spec` says whom a request is for, `timeout` is that of the client in seconds or None.

    Other messages are those of `tritonclient.grpc.service_pb2`. Each call raises BridgeError.
    """

    def __init__(self, core: InferenceCore) -> None:
        self._core = core

    async def infer(self, spec: ModelSpec, request: InferRequest, timeout: float | None) -> InferResponse:
        """ModelInfer."""

        async def attempt(destination: Destination) -> Send[InferResponse]:
            if isinstance(destination, V2Route):
                return inferred(destination, request)
            return _run(destination, request, session.run(destination, request))

        return await self._answer(spec, request, attempt, timeout)

    async def stream(
        self, spec: ModelSpec, request: InferRequest, timeout: float | None, relay: Relay
    ) -> InferResponse | None:
        """One request of a ModelStreamInfer: the response of a SavedModel.

        The answers of any other model, which may be many, go to `relay` as they come, each a ModelStreamInferResponse;
        then there is None to return.
        """

        async def attempt(destination: Destination) -> Send[InferResponse | None]:
            if isinstance(destination, V2Route):
                return relayed(destination, request, relay)
            return _run(destination, request, session.run(destination, request))

        return await self._answer(spec, request, attempt, timeout)

    async def ready(self, spec: ModelSpec, timeout: float | None) -> bool:
        """ModelReady: whether requests would be answered. A registered model is loaded for the answer.

        An unknown model is not ready, as in Triton.
        """
        try:
            return bool((await self._core.destination(spec, timeout)).instances)
        except BridgeError:
            return False

    async def metadata(self, spec: ModelSpec, timeout: float | None) -> Any:
        """ModelMetadata."""
        destination = await self._destination(spec, timeout)
        if isinstance(destination, ServableRoute):
            return models.metadata(destination, self._versions(spec, destination))
        request = service_pb2.ModelMetadataRequest(version=_version(spec))
        return await self._forwarded(spec, "ModelMetadata", request, service_pb2.ModelMetadataResponse, timeout)

    async def configuration(self, spec: ModelSpec, timeout: float | None) -> Any:
        """ModelConfig, as its ModelConfigResponse."""
        destination = await self._destination(spec, timeout)
        if isinstance(destination, ServableRoute):
            return service_pb2.ModelConfigResponse(config=models.configuration(destination))
        request = service_pb2.ModelConfigRequest(version=_version(spec))
        response = await self._forwarded(spec, "ModelConfig", request, service_pb2.ModelConfigResponse, timeout)
        response.config.name = spec.name
        return response

    async def statistics(self, spec: ModelSpec, timeout: float | None) -> Any:
        """ModelStatistics: what the Tritons of all copies counted since they loaded them, summed.

        Without a name those of every model that is loaded.
        """
        if spec.name:
            return await self._statistics([await self._destination(spec, timeout)], timeout)
        return await self._statistics([*self._core.view.routes.destinations()], timeout)

    async def _statistics(self, destinations: Sequence[Destination], timeout: float | None) -> Any:
        response = service_pb2.ModelStatisticsResponse()
        for destination in destinations:
            request = service_pb2.ModelStatisticsRequest(name=destination.triton_name).SerializeToString()
            limit = STATISTICS_TIMEOUT if timeout is None else min(timeout, STATISTICS_TIMEOUT)
            answers = await self._core.ask_copies(destination, "ModelStatistics", request, limit)
            response.model_stats.extend(statistics.summed(destination, answers))
        return response

    async def _answer(self, spec: ModelSpec, request: InferRequest, attempt: Attempt[R], timeout: float | None) -> R:
        limit = _limit(request.head, timeout)
        return await self._named(spec, self._core.answer(spec, attempt, limit, sequence(request.head)))

    async def _forwarded(self, spec: ModelSpec, method: str, request: Any, kind: Any, timeout: float | None) -> Any:
        async def attempt(destination: Destination) -> Send[Any]:
            if isinstance(destination, ServableRoute):
                raise BridgeError(f"Model {spec.name} is another one since the call began.")
            return forwarded(destination, method, request, kind)

        return await self._core.answer(spec, attempt, timeout)

    async def _destination(self, spec: ModelSpec, timeout: float | None) -> Destination:
        return await self._named(spec, self._core.destination(spec, timeout))

    def _versions(self, spec: ModelSpec, servable: ServableRoute) -> list[int]:
        model = self._core.view.routes.models.get(spec.name)
        if spec.version is not None or model is None or servable not in model.servables.values():
            return [servable.version]
        return sorted(model.servables)

    async def _named(self, spec: ModelSpec, answer: Awaitable[R]) -> R:
        """`answer`, with Triton's words for what is not there. ModelMesh's clients know those of ModelMesh."""
        try:
            return await answer
        except NotFound as error:
            if spec.lookup != MODELS_FIRST:
                raise
            version = "" if spec.version is None else f" version {spec.version}"
            quoted = f"'{spec.name}'{version}"
            raise NotFound(f"Request for unknown model: {quoted} is not found") from error


def model_spec(name: str, version: str) -> ModelSpec:
    """What a request asks for. Raises InvalidArgument for a version that is no number, in Triton's words."""
    if not version:
        return ModelSpec(name)
    if not version.isascii() or not version.isdigit() or len(version.lstrip("0")) > 18:
        raise InvalidArgument(
            f"failed to get model version from specified version string '{version}', "
            "version should be an integral value > 0"
        )
    return ModelSpec(name, int(version))


def sequence(request: Any) -> str:
    """The sequence that a request belongs to, empty for none: its requests have to meet one copy, in their order."""
    if SEQUENCE not in request.parameters:
        return ""
    value = request.parameters[SEQUENCE]
    return value.string_param or str(value.int64_param or value.uint64_param or "")


def _version(spec: ModelSpec) -> str:
    return "" if spec.version is None else str(spec.version)


def _limit(request: Any, timeout: float | None) -> float | None:
    """The client's deadline, or what it says in the request if that is sooner."""
    microseconds = request.parameters[TIMEOUT].int64_param if TIMEOUT in request.parameters else 0
    if microseconds <= 0:
        return timeout
    return microseconds / 1e6 if timeout is None else min(timeout, microseconds / 1e6)


def _run(servable: ServableRoute, request: InferRequest, run: SessionRun) -> Send[InferResponse]:
    async def send(leg: InferenceLeg, remaining: float) -> InferResponse:
        answer = await leg.infer(run.call(servable.triton_name, repeatable=not servable.stateful), remaining)
        return session.response(servable, request.head.id, run.outputs(answer))

    return send
