"""The V2 protocol over HTTP, with the binary tensor extension."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

import orjson

from bridge.codec.model_spec import ModelSpec
from bridge.errors import BridgeError, Code, Internal, InvalidArgument
from bridge.kserve import server
from bridge.kserve.inference import V2Inference, model_spec
from bridge.kserve.rest_request import parse_request
from bridge.kserve.rest_response import infer_body, plain
from bridge.kserve.rest_urls import V2Url, parse_url
from bridge.serving.infer import InferenceCore
from bridge.telemetry.observers import RequestObserver, unobserved
from bridge.tfserving.offload import Offload
from bridge.tfserving.rest_api import JSON, MALFORMED, Reply
from bridge.triton.outputs import byte_size

logger = logging.getLogger(__name__)

JSON_SIZE = "Inference-Header-Content-Length"
OCTETS = "application/octet-stream"
INFLATED_LIMIT = 100 * 1024 * 1024
"""Bytes of an inflated request body."""

Headers = Mapping[bytes, bytes]
"""Header fields by name in lower case."""


class V2RestApi:
    """The calls under /v2. `timeout` bounds inference calls, in seconds; None leaves it to the request path.

    Large bodies are read and written by `offload`. `observe` is told of each request as `v2/<action>`.
    """

    def __init__(
        self, core: InferenceCore, timeout: float | None, offload: Offload, observe: RequestObserver = unobserved
    ) -> None:
        self._view = core.view
        self._inference = V2Inference(core)
        self._timeout = timeout
        self._offload = offload
        self._observe = observe
        self._actions: Mapping[str, Callable[[V2Url, Headers, bytes], Awaitable[Reply]]] = {
            "server_live": self._server_live,
            "server_ready": self._server_ready,
            "server_metadata": self._server_metadata,
            "index": self._index,
            "ready": self._ready,
            "metadata": self._metadata,
            "config": self._config,
            "statistics": self._statistics,
            "infer": self._infer,
        }

    async def handle(self, method: str, target: str, headers: Headers, body: bytes) -> Reply:
        """Answer one request; errors become Triton's error bodies."""
        started, action, code = perf_counter(), MALFORMED, Code.CANCELLED
        try:
            url = parse_url(method, target)
            action = url.action
            reply = await self._actions[action](url, headers, body)
            code = Code.OK
            return reply
        except BridgeError as error:
            code = error.code
            return _error(error)
        except Exception:
            code = Code.INTERNAL
            logger.exception("A V2 call failed by a fault of the bridge: %s %s", method, target)
            return _error(Internal("Internal error of the bridge; its log says more."))
        finally:
            self._observe(f"v2/{action}", code, perf_counter() - started)

    async def _infer(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        spec = model_spec(url.name, url.version)
        size = _json_size(headers)
        body = await self._inflated(headers, body)
        request = await self._offload.run(len(body), parse_request, body, size, url.name, url.version)
        response = await self._inference.infer(spec, request.message, self._timeout)
        length = sum(map(byte_size, response.raw))
        answer = await self._offload.run(length, infer_body, response, request.binary, request.binary_default)
        if answer.json_size is None:
            return Reply(200, answer.body)
        return Reply(200, answer.body, OCTETS, {JSON_SIZE: str(answer.json_size)})

    async def _inflated(self, headers: Headers, body: bytes) -> bytes:
        encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        if encoding in ("", "identity"):
            return body
        if encoding not in _WBITS:
            raise InvalidArgument(f"Content-Encoding {encoding} is not supported")
        return await self._offload.run(len(body), _inflate, body, _WBITS[encoding])

    async def _server_live(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        return Reply(200, content_type="")

    async def _server_ready(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        return _readiness(server.is_ready(self._view.settled))

    async def _server_metadata(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        return _json(plain(server.metadata()))

    async def _index(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        return _json(plain(server.index(self._view.settled, ready_only=_wants_ready(body))).get("models", []))

    async def _ready(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        return _readiness(await self._inference.ready(_spec(url), self._timeout))

    async def _metadata(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        return _json(_complete(plain(await self._inference.metadata(_spec(url), self._timeout))))

    async def _config(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        response = await self._inference.configuration(_spec(url), self._timeout)
        return _json({"max_batch_size": 0, **plain(response.config)})

    async def _statistics(self, url: V2Url, headers: Headers, body: bytes) -> Reply:
        response = await self._inference.statistics(_spec(url), self._timeout)
        return _json({"model_stats": [], **plain(response)})


_WBITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def _inflate(body: bytes, wbits: int) -> bytes:
    inflater = zlib.decompressobj(wbits=wbits)
    try:
        data = inflater.decompress(body, INFLATED_LIMIT + 1)
    except zlib.error as error:
        raise InvalidArgument(f"the request's body cannot be inflated: {error}") from error
    if not inflater.eof or len(data) > INFLATED_LIMIT:
        raise InvalidArgument(f"the request's body is cut off, or inflates to more than {INFLATED_LIMIT} bytes")
    return data


def _spec(url: V2Url) -> ModelSpec:
    return model_spec(url.name, url.version)


def _json_size(headers: Headers) -> int | None:
    text = headers.get(JSON_SIZE.lower().encode())
    if text is None:
        return None
    if not text.isdigit():
        raise InvalidArgument(f"{JSON_SIZE} has to be a number")
    return int(text)


def _wants_ready(body: bytes) -> bool:
    if not body:
        return False
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"failed to parse the request JSON buffer: {error}") from error
    return isinstance(document, dict) and bool(document.get("ready"))


def _complete(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata with the shapes of scalars, which JSON of messages leaves out."""
    for side in ("inputs", "outputs"):
        for tensor in metadata.setdefault(side, []):
            tensor.setdefault("shape", [])
    return metadata


def _readiness(ready: bool) -> Reply:
    """Triton's: 400 where something is not ready."""
    return Reply(200 if ready else 400, content_type="")


def _json(document: Any) -> Reply:
    return Reply(200, orjson.dumps(document))


def _error(error: BridgeError) -> Reply:
    return Reply(error.http_status, orjson.dumps({"error": error.message}), JSON)
