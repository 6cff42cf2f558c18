"""The URLs of TF Serving's REST API."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from bridge.codec.predict import ModelSpec
from bridge.errors import InvalidArgument

_SUBJECT = r"/v1/models"
_CHOICE = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_INFERENCE = re.compile(rf"{_SUBJECT}/(?P<name>[^/:]+){_CHOICE}:(?P<action>classify|regress|predict)", re.IGNORECASE)
_READING = re.compile(rf"{_SUBJECT}(?:/(?P<name>[^/:]+))?{_CHOICE}(?:/(?P<action>metadata))?", re.IGNORECASE)
_API = re.compile(r"/v1/.*", re.IGNORECASE)
_INT64_MAX = 2**63 - 1


class BadUrl(InvalidArgument):
    """A URL that asks for nothing that there is. `model` is the name that it holds all the same, or empty."""

    def __init__(self, message: str, model: str = "") -> None:
        super().__init__(message)
        self.model = model


class VersionOverflow(BadUrl):
    """A version past int64: TF Serving answers it with an empty body."""


class RestUrl(NamedTuple):
    """What a URL asks for. `action` is predict, classify, regress, metadata or status."""

    action: str
    spec: ModelSpec


def is_api(target: str) -> bool:
    """Whether `target` belongs to the REST API; anything else gets a plain 404."""
    return _API.fullmatch(target) is not None


def parse_url(method: str, target: str) -> RestUrl:
    """Read the path of a request. `target` is the undecoded path with its query, which the URL patterns see too.

    The patterns ignore case, the comparison of what they found does not: `:PREDICT` is malformed, `/METADATA` asks for
    the status. Raises BadUrl; VersionOverflow for a version that is no int64.
    """
    pattern = {"POST": _INFERENCE, "GET": _READING}.get(method)
    match = pattern.fullmatch(target) if pattern is not None else None
    if match is None:
        raise _malformed(method, target)
    spec = _spec(match)
    action = match["action"]
    if method == "GET":
        if not spec.name:
            raise BadUrl("Missing model name in request.")
        return RestUrl("metadata" if action == "metadata" else "status", spec)
    if action != action.lower():
        raise _malformed(method, target, spec.name)
    return RestUrl(action, spec)


def _spec(match: re.Match[str]) -> ModelSpec:
    name = _decode(match["name"] or "")
    version = None if match["version"] is None else _int64(match["version"], name)
    label = None if match["label"] is None else _decode(match["label"])
    return ModelSpec(name=name, version=version, label=label)


def _int64(digits: str, model: str) -> int:
    significant = digits.lstrip("0")
    if len(significant) > len(str(_INT64_MAX)) or int(significant or "0") > _INT64_MAX:
        raise VersionOverflow(f"Failed to convert version: {digits} to numeric.", model)
    return int(significant or "0")


def _decode(text: str) -> str:
    """Percent-decoded; bytes that are no UTF-8 are kept as they are and match no name."""
    return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _malformed(method: str, target: str, model: str = "") -> BadUrl:
    return BadUrl(f"Malformed request: {method} {target}", model)
