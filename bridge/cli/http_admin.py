"""The admin API of a running server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

from bridge.cli.admin import JsonObject
from bridge.cli.login import Login
from bridge.errors import BridgeError, Code, InvalidArgument, Unavailable

TIMEOUT_SECONDS = 60.0
LONG_SECONDS = 3600.0
"""For calls that read or load contents: the server has deadlines of its own."""


class HttpAdmin:
    """Talks to the admin API at `url`, `http://HOST:PORT` or https, past any proxy. Raises InvalidArgument."""

    def __init__(self, url: str, login: Login | None = None) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        try:
            self._port = parts.port
        except ValueError as error:
            raise InvalidArgument(f"'{url}' is not the URL of an admin API: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"'{url}' is not the URL of an admin API; write http://HOST:PORT")
        self._host = parts.hostname
        self._prefix = parts.path
        login = login or Login()
        self._login = login.headers()
        self._tls = login.context() if parts.scheme == "https" else None

    def models(self, name: str | None = None) -> Sequence[JsonObject]:
        return self._list("models", name=name)

    def versions(self, model: str | None = None) -> Sequence[JsonObject]:
        return self._list("versions", model=model)

    def provenance(self, model: str, version: int | None) -> Sequence[JsonObject]:
        return self._list("provenance", model=model, version=version)

    def labels(self, model: str | None = None) -> Sequence[JsonObject]:
        return self._list("labels", model=model)

    def instances(self) -> Sequence[JsonObject]:
        return self._list("instances")

    def events(self, subject: str | None, action: str | None, after: int, limit: int) -> Sequence[JsonObject]:
        return self._list("events", subject=subject, action=action, after=after, limit=limit)

    def registered_models(self, id: str | None = None) -> Sequence[JsonObject]:
        return self._list("registered_models", id=id)

    def vmodels(self, id: str | None = None) -> Sequence[JsonObject]:
        return self._list("vmodels", id=id)

    def set_policy(self, model: str, policy: JsonObject, reason: str) -> bool:
        return self._change("PUT", "policy", {"model": model}, policy, reason)

    def set_label(self, model: str, label: str, version: int, reason: str) -> bool:
        return self._change("PUT", "label", {"model": model, "label": label}, {"version": version}, reason)

    def remove_label(self, model: str, label: str, reason: str) -> bool:
        return self._change("DELETE", "label", {"model": model, "label": label}, None, reason)

    def unpin(self, model: str, reason: str) -> bool:
        return self._change("DELETE", "pin", {"model": model}, None, reason)

    def rollback_plan(self, subject: str, to: str) -> JsonObject:
        plan: JsonObject = self._ask("GET", "rollback", _reference(subject, to), timeout=LONG_SECONDS)["rollback"]
        return plan

    def roll_back(self, subject: str, to: str, reason: str) -> JsonObject:
        return self._ask("POST", "rollback", _reference(subject, to), headers=_reason(reason), timeout=LONG_SECONDS)

    def set_vmodel(self, id: str, wanted: JsonObject, reason: str) -> bool:
        return self._change("PUT", "vmodel", {"id": id}, wanted, reason)

    def delete_vmodel(self, id: str, reason: str) -> bool:
        return self._change("DELETE", "vmodel", {"id": id}, None, reason)

    def _list(self, resource: str, **query: str | int | None) -> Sequence[JsonObject]:
        given = {name: value for name, value in query.items() if value is not None}
        items: Sequence[JsonObject] = self._ask("GET", resource, given)[resource]
        return items

    def _change(
        self, method: str, resource: str, query: Mapping[str, str], body: JsonObject | None, reason: str
    ) -> bool:
        return bool(self._ask(method, resource, query, body, _reason(reason))["changed"])

    def _ask(
        self,
        method: str,
        resource: str,
        query: Mapping[str, Any],
        body: JsonObject | None = None,
        headers: Mapping[str, bytes] | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> dict[str, Any]:
        with closing(self._connection(timeout)) as connection:
            try:
                response = self._send(connection, method, resource, query, body, headers)
                status, answer = response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                raise Unavailable(f"The admin API {self._url} does not answer: {_cause(error)}.") from error
        return self._answer(status, answer)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        resource: str,
        query: Mapping[str, Any],
        body: JsonObject | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> http.client.HTTPResponse:
        target = f"{self._prefix}/api/v1/{resource}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, target, data, {**self._login, **(headers or {})})
        return connection.getresponse()

    def _connection(self, timeout: float = TIMEOUT_SECONDS) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)

    def _answer(self, status: int, answer: bytes) -> dict[str, Any]:
        try:
            value = json.loads(answer)
            if status == 200:
                return dict(value)
            raise BridgeError(str(value["error"]), Code[value["code"]])
        except (ValueError, TypeError, KeyError) as error:
            raise Unavailable(f"{self._url} is not the admin API of a bridge: it answers {status}.") from error


def _reason(reason: str) -> dict[str, bytes]:
    """A header is one line; its bytes are UTF-8, which the server expects."""
    return {"x-audit-reason": " ".join(reason.split()).encode()} if reason else {}


def _reference(subject: str, to: str) -> dict[str, str]:
    return {"subject": subject, "to": to} if to else {"subject": subject}


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
