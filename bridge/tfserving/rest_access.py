"""A gate before the REST port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.access import http_gate, methods
from bridge.access.gate import Gate
from bridge.access.methods import METRICS, Needs
from bridge.codec.rest_response import error_json
from bridge.errors import BridgeError
from bridge.kserve import rest_urls as v2_urls
from bridge.tfserving import rest_urls
from bridge.tfserving.rest_api import Reply


class RestAccess:
    """Says which requests are denied, before their bodies are read. `needs` is by the action of a URL."""

    def __init__(self, gate: Gate, needs: Needs = methods.REST) -> None:
        self._gate = gate
        self._needs = needs

    def denial(self, scope: Mapping[str, Any], action: str) -> Reply | None:
        """The answer to a request that may not ask for `action`; None for one that may.

        An empty `action` is one that there is not: everybody is told that.
        """
        if not action:
            return None
        headers = http_gate.text_headers(scope)
        needed = self._needs.get(action, methods.UNLISTED)
        try:
            self._gate.admit(action, needed, http_gate.credentials(scope, headers), headers)
        except BridgeError as error:
            challenge = {"WWW-Authenticate": http_gate.challenge(error)}
            return Reply(error.http_status, error_json(error.message), headers=challenge)
        return None


def action(method: str, target: str) -> str:
    """What a request to the REST API or to V2 asks for; empty for nothing that there is, which is said to anybody."""
    try:
        if v2_urls.is_v2(target):
            return f"v2/{v2_urls.parse_url(method, target).action}"
        return rest_urls.parse_url(method, target).action if rest_urls.is_api(target) else ""
    except BridgeError:
        return ""


__all__ = ["METRICS", "RestAccess", "action"]
