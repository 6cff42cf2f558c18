"""TF Serving's REST API as one function from a request to a reply, whatever the HTTP server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from bridge.codec.predict import ModelSpec
from bridge.codec.rest_request import parse_predict_body, tensors
from bridge.codec.rest_response import error_json, metadata_json, predict_json, status_json
from bridge.errors import BridgeError, Code, Internal, Unimplemented
from bridge.serving.infer import InferenceCore
from bridge.serving.predict import session_run
from bridge.serving.resolve import resolve, rest_signature
from bridge.serving.routes import ServableRoute, SignatureRoute
from bridge.serving.session_run import SessionRun
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving.models import version_statuses
from bridge.tfserving.rest_urls import VersionOverflow, parse_url

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

    `observe` is told of each request by its action; one that the client gave up is CANCELLED.
    """

    def __init__(self, core: InferenceCore, timeout: float | None, observe: RequestObserver = unobserved) -> None:
        self._core = core
        self._observe = observe
        self._timeout = timeout
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
            url = parse_url(method, target)
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

    async def predict(self, spec: ModelSpec, body: bytes) -> bytes:
        request = parse_predict_body(body)

        def plan(servable: ServableRoute) -> tuple[SignatureRoute, SessionRun]:
            signature = rest_signature(servable, request.signature_name)
            return signature, session_run(signature, tensors(request, signature.inputs))

        answer = await self._core.infer(spec, plan, self._timeout)
        return predict_json(answer.outputs, request.row)

    async def classify(self, spec: ModelSpec, body: bytes) -> bytes:
        raise Unimplemented("Classify is not served by this server.")

    async def regress(self, spec: ModelSpec, body: bytes) -> bytes:
        raise Unimplemented("Regress is not served by this server.")

    async def metadata(self, spec: ModelSpec, body: bytes) -> bytes:
        servable = resolve(self._core.view.routes, spec)
        return metadata_json(servable.model, servable.version, servable.signature_def_map)

    async def status(self, spec: ModelSpec, body: bytes) -> bytes:
        return status_json(version_statuses(self._core.view.routes, spec))
