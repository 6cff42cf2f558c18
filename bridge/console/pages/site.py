"""The routes of the console."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.console.health import Readiness
from bridge.console.pages.history import HistoryPages
from bridge.console.pages.overview import OverviewPage
from bridge.console.pages.renderer import STATIC, Renderer
from bridge.console.pages.rollback import RollbackPages
from bridge.console.pages.subjects import SubjectPages
from bridge.errors import BridgeError
from bridge.lifecycle.operations import Operations
from bridge.modelmesh.operations import ModelMeshOperations

logger = logging.getLogger(__name__)

Page = Callable[[Request], Awaitable[Response]]


def routes(
    renderer: Renderer, operations: Operations, modelmesh: ModelMeshOperations, health: Readiness
) -> list[Route]:
    """Every page, and the files that pages load."""
    overview = OverviewPage(renderer, operations, modelmesh, health)
    subjects = SubjectPages(renderer, operations, modelmesh)
    history = HistoryPages(renderer, operations)
    rollback = RollbackPages(renderer, operations)
    pages: list[tuple[str, str, Page]] = [
        ("GET", "/", overview.show),
        ("GET", "/models", subjects.model),
        ("GET", "/vmodels", subjects.vmodel),
        ("GET", "/history", history.events),
        ("GET", "/at", history.at),
        ("GET", "/rollback", rollback.preview),
        ("POST", "/rollback", rollback.run),
        ("POST", "/unpin", rollback.unpin),
    ]
    return [
        *(Route(path, _answering(renderer, page), methods=[method]) for method, path, page in pages),
        *(Route(f"/static/{name}", partial(_static, renderer, name)) for name in STATIC),
    ]


def _answering(renderer: Renderer, page: Page) -> Page:
    """The handler of `page`; errors are pages, too."""

    async def handle(request: Request) -> Response:
        request.state.request_id = request.headers.get("x-request-id") or secrets.token_hex(8)
        try:
            return await page(request)
        except BridgeError as error:
            return renderer.page("error.html", request.scope, error.http_status, sentence=error.message)
        except Exception:
            logger.exception("a page failed by a fault of the bridge: %s %s", request.method, request.url.path)
            sentence = "Internal error of the bridge; its log says more."
            return renderer.page("error.html", request.scope, 500, sentence=sentence)

    return handle


async def _static(renderer: Renderer, name: str, request: Request) -> Response:
    return renderer.static(name)
