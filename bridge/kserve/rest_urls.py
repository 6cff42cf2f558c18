"""The URLs of the V2 protocol."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from bridge.errors import NotFound, Unimplemented

_MODEL = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?P<action>[a-z]+))?")
_SERVER = {
    ("GET", "/v2"): "server_metadata",
    ("GET", "/v2/health/live"): "server_live",
    ("GET", "/v2/health/ready"): "server_ready",
    ("GET", "/v2/models/stats"): "statistics",
    ("POST", "/v2/repository/index"): "index",
}
_ACTIONS = {
    ("GET", None): "metadata",
    ("GET", "ready"): "ready",
    ("GET", "config"): "config",
    ("GET", "stats"): "statistics",
    ("POST", "infer"): "infer",
}
_REFUSED = ("/v2/repository/", "/v2/systemsharedmemory", "/v2/cudasharedmemory", "/v2/trace", "/v2/logging")


class V2Url(NamedTuple):
    """What a URL asks for; `name` and `version` are empty where it is about the server."""

    action: str
    name: str = ""
    version: str = ""
    query: str = ""


def is_v2(target: str) -> bool:
    """Whether `target`, an undecoded path with its query, belongs to the V2 protocol."""
    path = target.partition("?")[0]
    return path == "/v2" or path.startswith("/v2/")


def parse_url(method: str, target: str) -> V2Url:
    """Read the path of a request. Raises NotFound for what there is not, Unimplemented for what the bridge refuses."""
    path, _, query = target.partition("?")
    path = path.rstrip("/")
    action = _SERVER.get((method, path))
    if action is not None:
        return V2Url(action, query=query)
    match = _MODEL.fullmatch(path)
    action = _ACTIONS.get((method, match["action"])) if match else None
    if match and action:
        return V2Url(action, unquote(match["name"]), unquote(match["version"] or ""), query)
    if path.startswith(_REFUSED):
        raise Unimplemented(f"{path} is not supported: the bridge itself decides what its Tritons load and how.")
    raise NotFound(f"There is no {method} {path}.")


def parameter(url: V2Url, name: str) -> str:
    """A parameter of the query, empty without it."""
    return parse_qs(url.query).get(name, [""])[0]
