"""Triton's binary tensor extension over HTTP/1.1, as bytes: requests from templates, responses without copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import httptools
import orjson

from bridge.triton.calls import ModelCall, WireTensor
from bridge.triton.outputs import byte_size, ordered

Buffer = bytes | bytearray | memoryview

SCRATCH = 16 * 1024
"""Bytes of a connection's own receive buffer: a response that fits is copied out, a larger one is received in place."""

TEMPLATES = 1024
"""Distinct (model, inputs, outputs) whose request heads are kept, and distinct answers whose heads are."""

SHORT = 2048
"""Bytes of an answer's JSON that is worth to be remembered."""


class ProtocolError(Exception):
    """The peer does not speak the HTTP that Triton speaks."""


class Response(NamedTuple):
    """`json_size` is the length of the JSON document before the tensors.

    It is None where the body is JSON alone, as in errors and answers whose tensors are all empty.
    """

    status: int
    json_size: int | None
    body: Buffer
    keep_alive: bool


class _Template(NamedTuple):
    head: bytes
    body: bytes


Fed = tuple[str, str, tuple[int, ...], int]
"""Name, datatype and shape of an input, and the bytes that it has."""


class Described(NamedTuple):
    """What an answer's JSON says of an output; `size` are its bytes."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    size: int


class RequestTemplates:
    """Makes the bytes of requests to one address.

    What does not change between two calls of a signature (names, datatypes, header lines) is encoded once. Raises
    ValueError for a header with a line break, which would be more than one header.
    """

    def __init__(self, host: str, headers: Mapping[str, str]) -> None:
        self._host = host
        self._headers = [header_line(name, value) for name, value in headers.items()]
        self._template = lru_cache(maxsize=TEMPLATES)(self._make_template)
        self._request = lru_cache(maxsize=TEMPLATES)(self._make_request)

    def buffers(self, call: ModelCall, timeout: float) -> list[Buffer]:
        """Head and JSON in one piece, then the tensors as they are. `timeout` (seconds) is told to Triton's queue."""
        fed = tuple([(name, datatype, shape, byte_size(data)) for name, datatype, shape, data in call.inputs])
        parameters = tuple(call.parameters.items())
        request = self._request(call.model, fed, tuple(call.outputs), parameters, call.request_id)
        return [request % microseconds(timeout), *[tensor.data for tensor in call.inputs]]

    def _make_request(
        self,
        model: str,
        fed: Sequence[Fed],
        outputs: Sequence[str],
        parameters: Sequence[tuple[str, str]],
        request_id: str,
    ) -> bytes:
        """Head and JSON of a call with a place for the timeout, whose width is fixed as both tell their lengths."""
        template = self._template(model, tuple([(name, datatype) for name, datatype, _, _ in fed]), outputs)
        values: list[bytes | int] = [_request_fields(dict(parameters), request_id)]
        for _, _, shape, size in fed:
            values += (orjson.dumps(shape), size)
        body = template.body % tuple(values)
        length = len(body) - len(_TIMEOUT) + _TIMEOUT_WIDTH
        head = template.head % (length, length + sum([size for _, _, _, size in fed]))
        before, after = body.split(_TIMEOUT, 1)
        return _escape(head + before) + b"%%%dd" % _TIMEOUT_WIDTH + _escape(after)

    def _make_template(self, model: str, inputs: Sequence[tuple[str, str]], outputs: Sequence[str]) -> _Template:
        lines = [
            f"POST /v2/models/{quote(model, safe='')}/infer HTTP/1.1",
            f"Host: {self._host}",
            "Content-Type: application/octet-stream",
            *self._headers,
        ]
        fixed = _escape("\r\n".join(lines).encode("latin-1"))
        head = fixed + b"\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
        asked = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
        fed = b",".join(_input_template(name, datatype) for name, datatype in inputs)
        return _Template(head, b'{%b"inputs":[' + fed + b'],"outputs":' + _escape(orjson.dumps(asked)) + b"}")


def header_line(name: str, value: str) -> str:
    """Raises ValueError for a line break, which would make more than one header of it."""
    if any(character in name + value for character in "\r\n"):
        raise ValueError(f"the header {name} holds a line break")
    return f"{name}: {value}"


def _input_template(name: str, datatype: str) -> bytes:
    fixed = orjson.dumps({"name": name, "datatype": datatype})[:-1]
    return _escape(fixed) + b',"shape":%b,"parameters":{"binary_data_size":%d}}'


_TIMEOUT_WIDTH = 20
"""Characters of a timeout; JSON takes spaces before it."""
_TIMEOUT = b"-1234567890"
"""Stands for the timeout, first in its message, until that is known."""


def _request_fields(parameters: Mapping[str, str], request_id: str) -> bytes:
    fields: dict[str, object] = {"parameters": {"timeout": int(_TIMEOUT), **parameters}}
    if request_id:
        fields["id"] = request_id
    return orjson.dumps(fields)[1:-1] + b","


def microseconds(timeout: float) -> int:
    """Triton reads a timeout of 0 as none, so the least is 1."""
    return max(1, int(timeout * 1e6))


def _escape(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


def outputs(response: Response, names: Sequence[str]) -> list[WireTensor]:
    """The tensors of a 200 answer in the order of `names`, as views on the body."""
    body = memoryview(response.body)
    found: dict[str, WireTensor] = {}
    offset = len(body) if response.json_size is None else response.json_size
    text = bytes(body[:offset])
    for name, datatype, shape, size in _described(text) if offset <= SHORT else _describe(text):
        end = offset + size
        found[name] = WireTensor(name, datatype, shape, body[offset:end])
        offset = end
    if offset != len(body):
        raise ProtocolError(f"the answer names {offset} bytes and has {len(body)}")
    return ordered(found, names)


def _describe(text: bytes) -> tuple[Described, ...]:
    """What the JSON of an answer says. Raises KeyError and JSONDecodeError."""
    return tuple(
        [
            Described(item["name"], item["datatype"], tuple(item["shape"]), item["parameters"]["binary_data_size"])
            for item in orjson.loads(text)["outputs"]
        ]
    )


_described = lru_cache(maxsize=TEMPLATES)(_describe)
"""The JSON of a model's answers is nearly always that of an earlier one, and so are their heads."""


class ResponseReader:
    """Collects responses, one after the other, from what a connection receives.

    A body of known length is received into the buffer that the tensors will be views of. Any other framing (chunked,
    as proxies and some errors have it) is left to httptools. Bytes behind a response belong to no request of ours:
    such a connection is not kept alive.
    """

    def __init__(self) -> None:
        self._scratch = bytearray(SCRATCH)
        self._reset()

    def buffer(self) -> memoryview:
        """Where the next received bytes go."""
        return self._target[self._filled :]

    def received(self, count: int) -> Response | None:
        """`count` bytes were put into `buffer()`: the response, once it is whole. Raises ProtocolError."""
        self._filled += count
        if self._head is None and not self._read_head():
            return None
        if self._stream is not None:
            return self._feed(self._stream)
        return self._finish() if self._filled >= self._total else None

    def _reset(self) -> None:
        self._target = memoryview(self._scratch)
        self._body: bytearray | None = None
        self._filled = 0
        self._start = 0
        self._total = 0
        self._stream: _StreamedResponse | None = None
        self._head: _Head | None = None

    def _read_head(self) -> bool:
        end = self._scratch.find(b"\r\n\r\n", 0, self._filled)
        if end < 0:
            if self._filled == SCRATCH:
                raise ProtocolError("the head of the answer is too long")
            return False
        self._head = head = _parse_head(bytes(self._scratch[:end]))
        self._start = end + 4
        if head.length is None:
            self._stream = _StreamedResponse()
        else:
            self._make_room(head.length)
        return True

    def _make_room(self, length: int) -> None:
        if self._start + length <= SCRATCH:
            self._total = self._start + length
            return
        part = self._filled - self._start
        self._body = bytearray(length)
        self._body[:part] = self._scratch[self._start : self._filled]
        self._target, self._filled, self._total = memoryview(self._body), part, length

    def _finish(self) -> Response:
        assert self._head is not None
        body: Buffer = bytes(self._scratch[self._start : self._total]) if self._body is None else self._body
        keep_alive = self._head.keep_alive and self._filled == self._total
        response = Response(self._head.status, self._head.json_size, body, keep_alive)
        self._reset()
        return response

    def _feed(self, stream: _StreamedResponse) -> Response | None:
        response = stream.feed(bytes(self._scratch[: self._filled]))
        self._filled = 0
        if response is not None:
            self._reset()
        return response


class _Head(NamedTuple):
    status: int
    length: int | None
    json_size: int | None
    keep_alive: bool


@lru_cache(maxsize=TEMPLATES)
def _parse_head(head: bytes) -> _Head:
    line, *lines = head.split(b"\r\n")
    if not line.startswith(b"HTTP/1.") or not line[9:12].isdigit():
        raise ProtocolError(f"the answer does not begin like HTTP/1.1: {line[:80]!r}")
    fields = {name.strip().lower(): value.strip() for name, _, value in (field.partition(b":") for field in lines)}
    keep_alive = line.startswith(b"HTTP/1.1") and fields.get(b"connection", b"").lower() != b"close"
    length = None if b"transfer-encoding" in fields else _number(fields, b"content-length")
    return _Head(int(line[9:12]), length, _number(fields, b"inference-header-content-length"), keep_alive)


def _number(fields: Mapping[bytes, bytes], name: bytes) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not value.isdigit():
        raise ProtocolError(f"the answer's {name.decode()} is {value[:40]!r}")
    return int(value)


class _StreamedResponse:
    """One response whose length is not announced, read by httptools."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._json_size: int | None = None
        self._complete = False

    def feed(self, data: bytes) -> Response | None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ProtocolError(f"the answer is not HTTP: {error}") from None
        if not self._complete:
            return None
        keep_alive = self._parser.should_keep_alive()
        return Response(self._parser.get_status_code(), self._json_size, b"".join(self._parts), keep_alive)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"inference-header-content-length":
            self._json_size = _number({name: value}, name)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self._complete = True
