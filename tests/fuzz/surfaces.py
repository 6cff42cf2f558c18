"""The surfaces of a server that is fuzzed: how bytes become a request, and what an answer may be."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError

from tests.fuzz import requests, v2_requests
from tests.fuzz.mutators import mutate_json, mutate_message
from tests.fuzz.requests import TARGETS, URLS, Rpc

HANG_SECONDS = 10.0
RELOAD = "HandleReloadConfigRequest"
RELOAD_SECONDS = 1.0
"""A reload waits for the models that it adds; this is how long."""
LEAKS = ("Traceback (most recent", 'File "', "Internal error of the bridge")
UNDECODABLE = (
    "Malformed protobuf message: ",
    "The request is no tensorflow.serving.",
    "The request is no inference.",
    "Error parsing serialized input.",
)
"""The sentences of INTERNAL: the bytes are no message."""
GRPC_LIMIT = 1024 + len("...TRUNCATED")
REST_CODES = frozenset({200, 400, 404, 501})
METHODS = ("POST", "GET", "OPTIONS", "HEAD", "PUT", "DELETE", "PATCH")


class Wrong(AssertionError):
    """An answer that no input may get."""


class Surface(Protocol):
    """`counts` says how often each status was the answer."""

    counts: Counter[str]

    def seeds(self) -> Sequence[bytes]:
        """Inputs that are good requests."""

    def ask(self, data: bytes) -> None:
        """Send what `data` means. Raises Wrong."""

    def mutate(self, data: bytes, random: Random) -> bytes | None:
        """A well-formed change of `data`, or of a good request if it is not well formed itself; None without any."""

    def check_alive(self) -> None:
        """A good request is answered rightly. Raises Wrong."""


class GrpcSurface:
    """Bytes as messages: the first byte says of which RPC, the others are the message.

    `good` are requests that are answered; `more` are codes that the models of a real server may answer too.
    """

    def __init__(self, address: str, good: Sequence[tuple[Rpc, bytes]], *, more: frozenset[str] = frozenset()) -> None:
        self.counts: Counter[str] = Counter()
        self._more = more
        self._good = good
        self._rpcs = list(dict.fromkeys(rpc for rpc, _ in good))
        self._seeds = [bytes([self._rpcs.index(rpc)]) + message for rpc, message in good]
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])

    def seeds(self) -> Sequence[bytes]:
        return self._seeds

    def ask(self, data: bytes) -> None:
        if not data:
            return
        rpc, request = self._rpc(data), data[1:]
        code, text = self._call(rpc, request)
        self.counts[code] += 1
        if any(leak in text for leak in LEAKS) or len(text.encode()) > GRPC_LIMIT:
            raise Wrong(f"{rpc.name} says {text!r}")
        if code == "INTERNAL" and text.startswith(UNDECODABLE):
            return
        if code != "OK" and code not in rpc.codes | self._more:
            raise Wrong(f"{rpc.name} answers {code} {text!r}")

    def mutate(self, data: bytes, random: Random) -> bytes | None:
        kind = self._rpc(data or b"\0").request
        try:
            message = kind.FromString(data[1:])
        except DecodeError:
            data = random.choice(self._seeds)
            message = self._rpc(data).request.FromString(data[1:])
        for _ in range(random.choice((1, 1, 2, 3))):
            mutate_message(message, random)
        return (data[:1] or b"\0") + message.SerializeToString()

    def check_alive(self) -> None:
        code, text = self._call(*self._good[0])
        if code != "OK":
            raise Wrong(f"a good request is answered {code} {text}")

    def _rpc(self, data: bytes) -> Rpc:
        return self._rpcs[data[0] % len(self._rpcs)]

    def _call(self, rpc: Rpc, request: bytes) -> tuple[str, str]:
        seconds = RELOAD_SECONDS if rpc.name == RELOAD else HANG_SECONDS
        try:
            self._channel.unary_unary(rpc.path)(request, timeout=seconds)
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
        return "OK", ""


class _RestSurface:
    def __init__(self, address: str, *, more: frozenset[str] = frozenset()) -> None:
        self.counts: Counter[str] = Counter()
        self._codes = REST_CODES | {int(code) for code in more}
        self._connection = RawConnection(address, timeout=HANG_SECONDS)

    def check_alive(self) -> None:
        target, body = requests.bodies()[0]
        status, answer, _ = self._request("POST", TARGETS[target].encode(), body, {})
        if (status, json.loads(answer)) != (200, {"predictions": [123.5, 124.0, 125.5]}):
            raise Wrong(f"a good request is answered {status} {answer!r}")

    def _check(self, asked: str, status: int, body: bytes, kind: str) -> None:
        self.counts[str(status)] += 1
        if any(leak.encode() in body for leak in LEAKS):
            raise Wrong(f"{asked} is answered {status} {body!r}")
        if status not in self._codes:
            raise Wrong(f"{asked} is answered {status} {body!r}")
        if kind == "application/json" and body:
            answer = json.loads(body.decode("utf-8", "surrogateescape"))
            if status != 200 and (answer.keys() != {"error"} or not isinstance(answer["error"], str)):
                raise Wrong(f"{asked} is answered {status} {body!r}")

    def _request(self, method: str, target: bytes, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, str]:
        """Send on the connection that is open; one that the server closed before is opened anew."""
        for last in (False, True):
            try:
                self._connection.request(method, target.decode("latin-1"), body, headers)
                response = self._connection.getresponse()
                return response.status, response.read(), response.getheader("content-type") or ""
            except (ConnectionError, http.client.BadStatusLine) as error:
                self._connection.close()
                if last:
                    raise Wrong(f"{method} {target!r}: the server hangs up: {error!r}") from error
        raise AssertionError("unreachable")


class RestBodySurface(_RestSurface):
    """Bytes as bodies: the first byte chooses the URL, an odd second one says gzip, the others are the body."""

    def seeds(self) -> Sequence[bytes]:
        return [bytes([target, zipped]) + body for zipped in (0, 3) for target, body in requests.bodies()]

    def ask(self, data: bytes) -> None:
        if len(data) < 2:
            return
        target, zipped, body = TARGETS[data[0] % len(TARGETS)], data[1] & 1, data[2:]
        headers = {"Content-Encoding": "gzip"} if zipped else {}
        # Half of the zipped bodies are no gzip.
        sent = gzip.compress(body, 1) if zipped and data[1] & 2 else body
        self._check(f"{target} {body!r}", *self._request("POST", target.encode(), sent, headers))

    def mutate(self, data: bytes, random: Random) -> bytes | None:
        try:
            return data[:2] + mutate_json(data[2:], random)
        except (ValueError, RecursionError):
            good = random.choice(self.seeds())
            with contextlib.suppress(ValueError):
                return good[:2] + mutate_json(good[2:], random)
            return None


class V2BodySurface(_RestSurface):
    """Bytes as bodies of V2: the first byte chooses the URL, two are the length of the JSON, the others the body."""

    def seeds(self) -> Sequence[bytes]:
        return [bytes([target]) + size.to_bytes(2, "big") + body for target, size, body in v2_requests.bodies()]

    def ask(self, data: bytes) -> None:
        if len(data) < 3:
            return
        target, size = v2_requests.TARGETS[data[0] % len(v2_requests.TARGETS)], int.from_bytes(data[1:3], "big")
        headers = {} if size == v2_requests.NO_HEADER else {"Inference-Header-Content-Length": str(size)}
        self._check(f"{target} {size} {data[3:]!r}", *self._request("POST", target.encode(), data[3:], headers))

    def mutate(self, data: bytes, random: Random) -> bytes | None:
        size = int.from_bytes(data[1:3], "big")
        try:
            text = mutate_json(data[3 : 3 + size], random)
        except (ValueError, RecursionError):
            data = random.choice(self.seeds())
            size = int.from_bytes(data[1:3], "big")
            text = mutate_json(data[3 : 3 + size], random)
        length = size if size == v2_requests.NO_HEADER else min(len(text), v2_requests.NO_HEADER - 1)
        return data[:1] + length.to_bytes(2, "big") + text + data[3 + size :]


class UrlSurface(_RestSurface):
    """Bytes as request targets: the first byte chooses the method, the others are the target."""

    def seeds(self) -> Sequence[bytes]:
        return [bytes([METHODS.index(method)]) + target for method, target in URLS]

    def ask(self, data: bytes) -> None:
        if not data:
            return
        method = METHODS[data[0] % len(METHODS)]
        target = b"/" + data[1:].lstrip(b"/").translate(None, b"\r\n ")
        self._check(f"{method} {target!r}", *self._request(method, target, b"", {"Origin": "http://localhost"}))

    def mutate(self, data: bytes, random: Random) -> bytes | None:
        return None


class RawConnection(http.client.HTTPConnection):
    """One that sends any target as it is."""

    def _validate_path(self, url: Any) -> None: ...

    def _encode_request(self, request: str) -> bytes:
        return request.encode("latin-1")
