"""TF Serving's REST API as one function from a request to a reply, whatever the HTTP server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

from bridge.codec.examples import ExamplesCall, encode_examples_request
from bridge.codec.inference_results import encode_response
from bridge.codec.model_spec import ModelSpec
from bridge.codec.predict import encode_predict_request, encode_predict_response
from bridge.codec.rest_examples import parse_examples_body
from bridge.codec.rest_request import parse_predict_body, tensors
from bridge.codec.rest_response import error_json, metadata_json, predict_json, results_json, status_json
from bridge.codec.tensor import Tensor
from bridge.errors import BridgeError, Code, FailedPrecondition, Internal
from bridge.serving.destination import as_servable
from bridge.serving.infer import InferenceCore
from bridge.serving.inference import CLASSIFY, PREDICT, REGRESS, Inference, InferExamples
from bridge.serving.observer import Answered, Entrypoint, Exchange, observed
from bridge.serving.predict import session_run
from bridge.serving.resolve import rest_signature
from bridge.serving.routes import ServableRoute, SignatureRoute
from bridge.serving.session_run import SessionRun
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving.models import version_statuses
from bridge.tfserving.offload import Offload
from bridge.tfserving.rest_urls import BadUrl, RestUrl, VersionOverflow, parse_url

logger = logging.getLogger(__name__)

JSON = "application/json"

MALFORMED = "malformed"
"""What requests are counted as whose URL asks for nothing that there is."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response. `headers` come in addition to Content-Type and Content-Length."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class RestApi:
    """The calls under /v1/. `timeout` bounds inference calls, in seconds; None leaves it to the request path.

    Large bodies are read and written by `offload`.

    `observe` is told of each request by its action; one that the client gave up is CANCELLED.
    """

    def __init__(
        self,
        core: InferenceCore,
        timeout: float | None,
        offload: Offload,
        observe: RequestObserver = unobserved,
    ) -> None:
        self._core = core
        self._inference = Inference(core)
        self._observe = observe
        self._timeout = timeout
        self._offload = offload
        self._actions: Mapping[str, Callable[[ModelSpec, bytes], Awaitable[bytes]]] = {
            "predict": self.predict,
            "classify": self.classify,
            "regress": self.regress,
            "metadata": self.metadata,
            "status": self.status,
        }

    async def handle(self, method: str, target: str, body: bytes) -> Reply:
        """Answer one request; errors become TF Serving's error bodies."""
        started, action, code = perf_counter(), MALFORMED, Code.CANCELLED
        try:
            with observed(self._core.observer, Entrypoint.REST) as answered:
                url = _parse_url(method, target, answered)
                action = url.action
                reply = Reply(200, await self._actions[action](url.spec, body))
            code = Code.OK
            return reply
        except VersionOverflow as error:
            code = error.code
            return Reply(error.http_status)
        except BridgeError as error:
            code = error.code
            return Reply(error.http_status, error_json(error.message))
        except Exception:
            code = Code.INTERNAL
            logger.exception("A REST call failed by a fault of the bridge: %s %s", method, target)
            failure = Internal("Internal error of the bridge; its log says more.")
            return Reply(failure.http_status, error_json(failure.message))
        finally:
            self._observe(action, code, perf_counter() - started)

    def preflight(self, origin: str) -> Reply:
        """Answer OPTIONS for a page from `origin`. TF Serving does so whether or not it is to add CORS headers."""
        try:
            with observed(self._core.observer, Entrypoint.REST):
                if "http://" not in origin and "https://" not in origin:
                    raise FailedPrecondition("Origin header is missing in CORS preflight")
        except FailedPrecondition as error:
            logger.info("%s", error.message)
            return Reply(error.http_status, content_type="")
        return Reply(200, content_type="")

    async def predict(self, spec: ModelSpec, body: bytes) -> bytes:
        request = await self._offload.run(len(body), parse_predict_body, body)

        async def plan(servable: ServableRoute) -> tuple[_Predict, SessionRun]:
            signature = rest_signature(servable, request.signature_name)
            inputs = await self._offload.run(len(body), tensors, request, signature.inputs)
            return _Predict(signature, inputs), session_run(signature, inputs)

        servable, planned, outputs = await self._core.infer(spec, plan, self._timeout, PREDICT)
        size = sum(len(tensor.data) for _, tensor in outputs)
        response = await self._offload.run(size, predict_json, outputs, request.row)

        def messages() -> tuple[bytes, bytes]:
            named = spec._replace(signature=request.signature_name)
            return encode_predict_request(named, [*planned.inputs.items()]), encode_predict_response(
                servable.model, servable.version, planned.signature.name, outputs
            )

        self._exchanged(PREDICT, servable.model, servable.version, planned.signature.name, messages)
        return response

    async def classify(self, spec: ModelSpec, body: bytes) -> bytes:
        return await self._on_examples(CLASSIFY, self._inference.classify, spec, body)

    async def regress(self, spec: ModelSpec, body: bytes) -> bytes:
        return await self._on_examples(REGRESS, self._inference.regress, spec, body)

    async def _on_examples(self, api: str, infer: InferExamples, spec: ModelSpec, body: bytes) -> bytes:
        request = await self._offload.run(len(body), parse_examples_body, body)
        named = spec._replace(signature=request.signature_name)
        answer = await infer(ExamplesCall(named, request.examples), self._timeout)
        response = results_json(answer.result.result)

        def messages() -> tuple[bytes, bytes]:
            return encode_examples_request(named, request.examples), encode_response(
                answer.model, answer.version, answer.result
            )

        self._exchanged(api, answer.model, answer.version, answer.result.signature, messages)
        return response

    def _exchanged(
        self, api: str, model: str, version: int, signature: str, messages: Callable[[], tuple[bytes, bytes]]
    ) -> None:
        self._core.observer.exchanged(Exchange(api, model, version, signature, messages))

    async def metadata(self, spec: ModelSpec, body: bytes) -> bytes:
        answering = as_servable(await self._core.destination(spec, self._timeout))
        return metadata_json(answering.model, answering.version, answering.signature_def_map)

    async def status(self, spec: ModelSpec, body: bytes) -> bytes:
        return status_json(version_statuses(self._core.view.settled, spec))


class _Predict(NamedTuple):
    """What a predict request means on a servable."""

    signature: SignatureRoute
    inputs: Mapping[str, Tensor]


def _parse_url(method: str, target: str, answered: Answered) -> RestUrl:
    """What the request asks for; `answered` learns the model, and the action if it is an inference. Raises BadUrl."""
    try:
        url = parse_url(method, target)
    except BadUrl as error:
        answered.model = error.model
        raise
    answered.model = url.spec.name
    answered.api = url.action if method == "POST" else ""
    return url
