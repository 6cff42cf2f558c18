"""Renders the templates. Everything that comes from data is escaped; pages load nothing but what this port serves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from bridge import __version__, moments
from bridge.access import http_gate
from bridge.access.identity import Kind, Scope
from bridge.console.pages.event_view import subject_url
from bridge.console.same_origin import SESSION

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    # With no-referrer browsers would send forms without their origin.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Renderer:
    """The environment of the templates and the files that pages load, read once."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("bridge.console.pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"moment": moments.describe, "clock": clock, "size": size, "duration": duration}
        self._environment.globals |= {"subject_url": subject_url, "url": url, "static": self._address}
        directory = files("bridge.console.pages") / "static"
        self._static = {name: (directory / name).read_bytes() for name in STATIC}
        self._digests = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self._static.items()}

    def page(self, template: str, scope: Mapping[str, Any], status: int = 200, **values: Any) -> Response:
        """A page for who sent the request with this ASGI scope."""
        context = {"here": scope["path"], "version": __version__, **_visitor(scope), **values}
        text = self._environment.get_template(template).render(context)
        return Response(text, status, HEADERS, "text/html")

    def static(self, name: str) -> Response:
        """A file that pages load; its address changes with its content."""
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._static[name], 200, headers, STATIC[name])

    def _address(self, name: str) -> str:
        return f"/static/{name}?{self._digests[name]}"


def url(path: str, **query: Any) -> str:
    """A path with the parameters that are not empty."""
    given = {name.rstrip("_"): value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def clock(at: int) -> str:
    """A time to the second, as people read it: `2026-03-31 08:00:00`."""
    return moments.describe(at - at % 1_000_000).replace("T", " ").removesuffix("Z")


def size(number: int) -> str:
    """A number of bytes in a unit that suits it."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {UNITS[unit]}"


def duration(microseconds: int) -> str:
    """How long, in the two largest units: `3 d 4 h`."""
    seconds = microseconds // 1_000_000
    if seconds < 1:
        return f"{microseconds // 1000} ms"
    parts: list[tuple[int, str]] = []
    for name, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count)


def _visitor(scope: Mapping[str, Any]) -> dict[str, Any]:
    identity = http_gate.identity(scope)
    return {
        "visitor": "" if identity.kind is Kind.PEER else identity.name,
        "in_session": bool(scope.get(SESSION)),
        "may_manage": Scope.MANAGE in http_gate.permitted(scope),
    }
