"""The agent port: JSON and files over HTTP, for agents that know the token and for nobody else."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from bridge.agents.mirrors import Mirrors
from bridge.console import questions
from bridge.console.answers import error_response, json_response
from bridge.errors import BridgeError, Code, InvalidArgument

Handler = Callable[[Request], Awaitable[Response]]


def agent_app(mirrors: Mirrors, token: str) -> Starlette:
    """The ASGI application of the agent port."""

    async def exchange(request: Request) -> Response:
        (instance,) = questions.required(request, "instance")
        held = (await questions.body(request)).get("held")
        if not isinstance(held, dict) or not all(isinstance(digest, str) for digest in held.values()):
            raise InvalidArgument('the body has to be {"held": {NAME: DIGEST}}')
        models = await mirrors.exchange(instance, held)
        plain = {name: asdict(model) for name, model in models.items()}
        return json_response({"deployment": mirrors.deployment, "models": plain})

    async def file(request: Request) -> Response:
        instance, model, digest, path = questions.required(request, "instance", "model", "digest", "path")
        return FileResponse(await mirrors.file(instance, model, digest, path), media_type="application/octet-stream")

    return Starlette(
        routes=[
            Route("/api/v1/repository", _answering(exchange, token), methods=["POST"]),
            Route("/api/v1/repository/file", _answering(file, token)),
        ]
    )


def _answering(call: Handler, token: str) -> Handler:
    expected = f"Bearer {token}".encode()

    async def handle(request: Request) -> Response:
        given = request.headers.get("authorization", "").encode("latin-1")
        if not secrets.compare_digest(given, expected):
            return error_response("the token of --agent_token_file is needed", Code.UNAUTHENTICATED, 401)
        try:
            return await call(request)
        except BridgeError as error:
            return error_response(error.message, error.code, error.http_status)
        except OSError as error:
            return error_response(f"the repository cannot be read: {error.strerror}", Code.UNAVAILABLE, 503)

    return handle
