"""The native server under clients that do not keep to HTTP/2 or gRPC: it ends their call or connection, and goes on."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator

import grpc
import pytest
from hpack import Decoder

from bridge.transport import native
from bridge.transport.choice import NATIVE
from tests.support.waiting import wait_for
from tests.transport import http2_frames as http2
from tests.transport.http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    GRPC,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    frame,
)
from tests.transport.served import NAME, Served, served, unary

pytestmark = pytest.mark.skipif(native.MODULE is None, reason=native.PROBLEM)

ECHO = f"/{NAME}/Echo"
SETTINGS_FRAME = frame(SETTINGS, 0, 0)
OPEN = frame(HEADERS, END_HEADERS, 1, http2.request(ECHO, *GRPC))


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(NATIVE) as server:
        yield server


@pytest.fixture(autouse=True)
def goes_on(server: Served) -> Iterator[None]:
    """Every test leaves the server at work, on connections that were open before, too."""
    with grpc.insecure_channel(server.address) as channel:
        unary(channel, "Echo")(b"before")
        yield
        assert unary(channel, "Echo")(b"after") == b"after"
    with grpc.insecure_channel(server.address) as channel:
        assert unary(channel, "Echo")(b"new") == b"new"


Connect = Callable[..., Peer]


@pytest.fixture
def connect(server: Served) -> Iterator[Connect]:
    """Makes connections that speak in frames."""
    peers: list[Peer] = []

    def connect(*first: bytes) -> Peer:
        peers.append(Peer(server.port, *first))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.close()


def test_frames_by_hand(connect: Connect) -> None:
    peer = connect()
    peer.call(1, ECHO, b"hello")
    assert peer.until(DATA, 1) == http2.message(b"hello")


@pytest.mark.parametrize("cut", [1, 3, 10, 50, 90, 100])
def test_bytes_in_pieces(connect: Connect, cut: int) -> None:
    data = OPEN + frame(DATA, END_STREAM, 1, http2.message(b"hello"))
    peer = connect()
    for start in range(0, len(data), cut):
        peer.send(data[start : start + cut])
    assert peer.until(DATA, 1) == http2.message(b"hello")


CLOSED = {
    "HTTP/1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
    "noise": bytes(range(256)) * 10,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "no settings first": PREFACE + frame(PING, 0, 0, bytes(8)),
    "data on an idle stream": PREFACE + SETTINGS_FRAME + frame(DATA, 0, 1, b"x"),
    "a stream of the server's": PREFACE + SETTINGS_FRAME + frame(HEADERS, END_HEADERS, 2, http2.request(ECHO, *GRPC)),
    "no header block": PREFACE + SETTINGS_FRAME + frame(HEADERS, END_HEADERS, 1, b"\xff" * 50),
    "a frame that is too long": PREFACE + SETTINGS_FRAME + b"\xff\xff\xff" + frame(DATA, 0, 1)[3:],
    "a window that overflows": PREFACE + SETTINGS_FRAME + frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "endless header blocks": PREFACE
    + SETTINGS_FRAME
    + frame(HEADERS, 0, 1, http2.request(ECHO, *GRPC))
    + frame(CONTINUATION, 0, 1, http2.fields([("a", "b" * 100)])) * 100,
    "a header list without end": PREFACE
    + SETTINGS_FRAME
    + frame(HEADERS, END_HEADERS, 1, http2.request(ECHO, *GRPC) + http2.fields([("a", "b" * 200)]) * 5000),
    "settings that mean nothing": PREFACE + frame(SETTINGS, 0, 0, b"\0\x05\0\0\0\x01"),
}


@pytest.mark.parametrize("case", CLOSED)
def test_what_is_no_http2_closes_the_connection(connect: Connect, case: str) -> None:
    assert connect(CLOSED[case]).closed()


def test_a_flood_of_pings_that_are_not_read(connect: Connect) -> None:
    peer = connect()
    for _ in range(200):
        peer.send(frame(PING, 0, 0, bytes(8)) * 1000)
    peer.close()


def test_a_flood_of_resets_is_cut_off(connect: Connect) -> None:
    peer = connect()
    request = http2.request(ECHO, *GRPC)
    for stream in range(1, 10_000, 2):
        peer.send(frame(HEADERS, END_HEADERS, stream, request) + frame(RST_STREAM, 0, stream, bytes(4)))
    assert peer.closed()


def test_a_call_that_is_reset_at_once(server: Served, connect: Connect) -> None:
    peer = connect()
    cancelled = server.rpcs.events.count("cancelled")
    peer.call(1, f"/{NAME}/Wait", b"60")
    wait_for(lambda: server.rpcs.events.count("waits") > 0, 20, "the RPC runs")
    peer.send(frame(RST_STREAM, 0, 1, b"\0\0\0\x08"))
    wait_for(lambda: server.rpcs.events.count("cancelled") == cancelled + 1, 20, "the RPC was cancelled")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (OPEN + frame(DATA, END_STREAM, 1, b"\x02\0\0\0\0"), "13"),
        (OPEN + frame(DATA, END_STREAM, 1, http2.message(b"x", 1)), "13"),
        (OPEN + frame(DATA, END_STREAM, 1, b"\0\0\0\0\x05abc"), "13"),
        (OPEN + frame(DATA, END_STREAM, 1, b"\0\0"), "13"),
        (OPEN + frame(DATA, END_STREAM, 1), "13"),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, http2.request(ECHO, *GRPC)), "13"),
        (frame(HEADERS, END_HEADERS, 1, http2.request("/a/b", *GRPC)), "12"),
        (frame(HEADERS, END_HEADERS, 1, http2.request(ECHO, *GRPC, ("grpc-encoding", "snappy")))
         + frame(DATA, END_STREAM, 1, http2.message(b"x", 1)), "12"),
        (frame(HEADERS, END_HEADERS, 1, http2.request(ECHO, *GRPC, ("grpc-encoding", "gzip")))
         + frame(DATA, END_STREAM, 1, http2.message(b"no gzip", 1)), "13"),
        (frame(HEADERS, END_HEADERS, 1, http2.request(f"/{NAME}/Wait", *GRPC, ("grpc-timeout", "50m")))
         + frame(DATA, END_STREAM, 1, http2.message(b"60")), "4"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(connect: Connect, sent: bytes, status: str) -> None:
    peer = connect()
    peer.send(sent)
    fields = Decoder().decode(peer.until(HEADERS, 1, END_STREAM))
    assert ("grpc-status", status) in [tuple(field) for field in fields]


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("1S", 1),
        ("2000m", 2),
        ("3000000u", 3),
        ("00000001H", 3600),
        ("5M", 300),
        ("7n", 7e-9),
        ("x", None),
        ("1", None),
    ],
)
def test_timeouts(server: Served, connect: Connect, timeout: str, seconds: float | None) -> None:
    peer = connect()
    peer.call(1, ECHO, b"0", ("grpc-timeout", timeout))
    peer.until(HEADERS, 1)
    assert server.rpcs.callers[-1].timeout == (None if seconds is None else pytest.approx(seconds))


def test_a_call_begins_with_its_message(connect: Connect) -> None:
    """As with grpcio: the client need not close its side first."""
    peer = connect()
    peer.send(OPEN + frame(DATA, 0, 1, http2.message(b"hello") + http2.message(b"and more")))
    assert peer.until(DATA, 1) == http2.message(b"hello")
    assert peer.until(RST_STREAM, 1) == bytes(4)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
@pytest.mark.parametrize(("arguments", "status"), [((), "405"), (("-X", "POST"), "415")])
def test_browsers_are_refused(server: Served, arguments: tuple[str, ...], status: str) -> None:
    command = ["curl", "-s", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", *arguments]
    answer = subprocess.run([*command, f"http://{server.address}{ECHO}"], capture_output=True, text=True, check=False)
    assert answer.stdout == status


def test_sessions_withstand_any_bytes() -> None:
    """Mutated connections, straight into the state machine."""
    assert native.MODULE is not None
    chance = random.Random(7)
    valid = PREFACE + SETTINGS_FRAME + OPEN + frame(DATA, END_STREAM, 1, http2.message(b"hello"))
    for _ in range(3000):
        session = native.MODULE.Session({ECHO.encode(): None}, {b"/s/s": None}, 1000, 16384, 100)
        data = bytearray(valid)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(PREFACE), len(data))] = chance.randrange(256)
        try:
            for event in session.receive(data, len(data)):
                if event[0] == native.MODULE.UNARY:
                    session.respond(event[1], event[3])
            session.output()
        except native.MODULE.Http2Error:
            pass


def test_goodbye(connect: Connect) -> None:
    """A client that goes away gracefully is let go."""
    peer = connect()
    peer.send(frame(GOAWAY, 0, 0, bytes(8)))
    assert peer.closed()
