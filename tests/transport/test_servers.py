"""What every gRPC server does, as grpcio's client sees it."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from bridge.errors import Code, Unavailable
from bridge.tfserving.rpc import FAULT
from bridge.transport import native
from bridge.transport.choice import NATIVE
from tests.support.waiting import wait_for
from tests.transport.served import NAME, SERVERS, UNLIMITED, Served, served, stream, unary

needs_native = pytest.mark.skipif(native.MODULE is None, reason=native.PROBLEM)


@pytest.fixture(params=SERVERS, scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[Served]:
    with served(kind) as server:
        yield server


@pytest.fixture(scope="module")
def channel(server: Served) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address, options=UNLIMITED) as channel:
        yield channel


def failed(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


@pytest.mark.parametrize("size", [0, 1, 5, 16_379, 16_384, 65_535, 300_000, 5_000_000])
def test_messages_of_any_size(channel: grpc.Channel, size: int) -> None:
    message = bytes(index & 0xFF for index in range(min(size, 1000))) * (size // 1000 or 1)
    assert unary(channel, "Echo")(message) == message


@pytest.mark.parametrize("size", [0, 1, 5_000, 70_000, 300_000, 20_000_000])
def test_messages_in_pieces(channel: grpc.Channel, size: int) -> None:
    message = random.Random(size).randbytes(size)
    assert unary(channel, "Pieces")(message) == message


def test_a_message_of_100_mb(channel: grpc.Channel) -> None:
    message = bytes(100_000_000)
    assert unary(channel, "Echo")(message) == message


TEXTS = ("", "plain", "100%", "%41", " ends with spaces  ", "ü€\U0001f600", "a\nb\0c\x7f", "a" * 1024)


@pytest.mark.parametrize("text", TEXTS)
def test_status_messages(channel: grpc.Channel, text: str) -> None:
    code, details = failed(lambda: unary(channel, "Fail")(f"5 {text}".encode()))
    assert (code, details) == (grpc.StatusCode.NOT_FOUND, text)


def test_long_status_messages_are_cut(channel: grpc.Channel) -> None:
    assert failed(lambda: unary(channel, "Fail")(b"9 " + b"a" * 5000))[1] == "a" * 1024 + "...TRUNCATED"


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_status_codes(channel: grpc.Channel, code: Code) -> None:
    status, text = failed(lambda: unary(channel, "Fail")(f"{int(code)} sentence".encode()))
    assert (status.value[0], text) == (int(code), "sentence")


def test_a_fault_of_the_bridge_is_internal(channel: grpc.Channel) -> None:
    assert failed(lambda: unary(channel, "Break")(b"")) == (grpc.StatusCode.INTERNAL, FAULT)


@pytest.mark.parametrize("method", [f"/{NAME}/Nothing", "/test.Nothing/Echo", "/a", f"/{NAME}/Echo/", "/"])
def test_unknown_methods(channel: grpc.Channel, method: str) -> None:
    assert failed(lambda: channel.unary_unary(method)(b"")) == (grpc.StatusCode.UNIMPLEMENTED, "")
    many = channel.stream_stream(method)
    assert failed(lambda: list(many(iter([b"", b""])))) == (grpc.StatusCode.UNIMPLEMENTED, "")


def test_metadata(server: Served, channel: grpc.Channel) -> None:
    sent = (("mm-model-id", "one"), ("twice", "a"), ("twice", "b c"), ("raw-bin", b"\0\xff!"), ("empty-bin", b""))
    unary(channel, "Echo")(b"", metadata=sent)
    caller = server.rpcs.callers[-1]
    assert [entry for entry in caller.entries if entry in sent] == list(sent)
    assert caller.metadata["twice"] == "b c"
    assert caller.metadata["user-agent"].startswith("grpc-python/")
    assert "raw-bin" not in caller.metadata
    assert not {"te", "content-type", "grpc-timeout", ":path"} & {key for key, _ in caller.entries}
    assert caller.peer.startswith("ipv4:127.0.0.1:")


def test_too_much_metadata(channel: grpc.Channel) -> None:
    code, _ = failed(lambda: unary(channel, "Echo")(b"", metadata=[("large", "a" * 20_000)]))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    unary(channel, "Echo")(b"", metadata=[("large", "a" * 7_000)])


def test_deadlines(server: Served, channel: grpc.Channel) -> None:
    before = server.rpcs.events.count("cancelled")
    started = time.monotonic()
    code, _ = failed(lambda: unary(channel, "Wait")(b"60", timeout=0.2))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - started < 9
    timeout = server.rpcs.callers[-1].timeout
    assert timeout is not None
    assert 0.1 < timeout < 0.21
    wait_for(lambda: server.rpcs.events.count("cancelled") == before + 1, 20, "the RPC was cancelled")
    unary(channel, "Echo")(b"")
    assert server.rpcs.callers[-1].timeout is None


def test_cancellation(server: Served, channel: grpc.Channel) -> None:
    waiting, cancelled = server.rpcs.events.count("waits"), server.rpcs.events.count("cancelled")
    call = unary(channel, "Wait").future(b"60")
    wait_for(lambda: server.rpcs.events.count("waits") == waiting + 1, 20, "the RPC runs")
    call.cancel()
    wait_for(lambda: server.rpcs.events.count("cancelled") == cancelled + 1, 20, "the RPC was cancelled")


def test_a_client_that_goes_away_cancels_its_calls(server: Served) -> None:
    waiting, cancelled = server.rpcs.events.count("waits"), server.rpcs.events.count("cancelled")
    with grpc.insecure_channel(server.address) as channel:
        calls = [unary(channel, "Wait").future(b"60") for _ in range(5)]
        wait_for(lambda: server.rpcs.events.count("waits") == waiting + 5, 20, "the RPCs run")
    assert len(calls) == 5
    wait_for(lambda: server.rpcs.events.count("cancelled") == cancelled + 5, 20, "the RPCs were cancelled")


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_compressed_requests(channel: grpc.Channel, compression: grpc.Compression, size: int) -> None:
    assert unary(channel, "Echo")(bytes(size), compression=compression) == bytes(size)
    assert list(stream(channel, "EchoAll")(iter([bytes(size)]), compression=compression)) == [bytes(size), b"the end"]


@pytest.mark.parametrize("algorithm", [1, 2])
def test_compressed_responses(kind: str, algorithm: int) -> None:
    arguments = {"grpc.default_compression_algorithm": algorithm}
    with (
        served(kind, arguments=arguments) as server,
        grpc.insecure_channel(server.address, options=[("grpc.max_receive_message_length", -1)]) as channel,
    ):
        assert unary(channel, "Echo")(bytes(1_000_000)) == bytes(1_000_000)
        assert unary(channel, "Echo")(b"\x93") == b"\x93"
        assert list(stream(channel, "EchoAll")(iter([bytes(1000)]))) == [bytes(1000), b"the end"]


@needs_native
def test_responses_are_compressed_only_where_clients_take_that() -> None:
    """grpcio's server sends them all the same."""
    with served(NATIVE, arguments={"grpc.default_compression_algorithm": 2}) as server:
        only = [("grpc.compression_enabled_algorithms_bitset", 1)]
        with grpc.insecure_channel(server.address, options=only) as channel:
            assert unary(channel, "Echo")(bytes(1000)) == bytes(1000)


def test_limits_of_messages(kind: str) -> None:
    limits = {"grpc.max_receive_message_length": 1000, "grpc.max_send_message_length": 500}
    with served(kind, arguments=limits) as server, grpc.insecure_channel(server.address) as channel:
        assert len(unary(channel, "Echo")(bytes(500))) == 500
        code, text = failed(lambda: unary(channel, "Echo")(bytes(1001)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than max (1001 vs. 1000)" in text
        code, text = failed(lambda: unary(channel, "Echo")(bytes(501)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        packed = unary(channel, "Echo").future(bytes(100_000), compression=grpc.Compression.Gzip)
        assert packed.exception().code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(unary(channel, "Echo")(bytes(500))) == 500


def test_streams(channel: grpc.Channel) -> None:
    sizes = (0, 1, 100_000, 20_000_000, 3)
    answers = list(stream(channel, "EchoAll")(bytes(size) for size in sizes))
    assert [len(answer) for answer in answers] == [*sizes, len(b"the end")]


def test_a_stream_without_requests(channel: grpc.Channel) -> None:
    assert list(stream(channel, "EchoAll")(iter([]))) == [b"the end"]


def test_a_stream_answers_before_it_is_closed(channel: grpc.Channel) -> None:
    go_on = threading.Event()

    def requests() -> Iterator[bytes]:
        yield b"one"
        go_on.wait(10)
        yield b"two"

    answers = stream(channel, "EchoAll")(requests())
    assert next(answers) == b"one"
    go_on.set()
    assert list(answers) == [b"two", b"the end"]


def test_a_stream_that_fails(channel: grpc.Channel) -> None:
    answers = stream(channel, "FailLater")(iter([]))
    assert next(answers) == b"first"
    assert failed(lambda: next(answers)) == (grpc.StatusCode.ABORTED, "no more")


def test_a_slow_reader_holds_the_responses_back(server: Served, channel: grpc.Channel) -> None:
    count, size = 2000, 100_000
    answers = stream(channel, "Count")(iter([f"{count} {size}".encode()]))
    next(answers)
    time.sleep(0.3)
    assert server.rpcs.written < count / 2
    assert sum(1 for _ in answers) == count - 1


def test_a_slow_server_holds_the_requests_back(server: Served, channel: grpc.Channel) -> None:
    sent = 0

    def requests() -> Iterator[bytes]:
        nonlocal sent
        for sent in range(2000):  # noqa: B007
            yield bytes(100_000)

    before = server.rpcs.events.count("ended")
    call = stream(channel, "Hold")(requests())
    wait_for(lambda: "read" in server.rpcs.events, 20, "the first request was read")
    time.sleep(0.5)
    assert sent < 1000
    call.cancel()
    wait_for(lambda: server.rpcs.events.count("ended") == before + 1, 20, "the RPC ended")


def test_many_calls_on_one_connection(channel: grpc.Channel) -> None:
    calls = [unary(channel, "Echo").future(str(number).encode()) for number in range(1000)]
    assert [call.result() for call in calls] == [str(number).encode() for number in range(1000)]


def test_many_connections(server: Served) -> None:
    def call(number: int) -> bytes:
        own = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, options=own) as channel:
            return bytes(unary(channel, "Echo")(str(number).encode()))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(call, range(200))) == [str(number).encode() for number in range(200)]


def test_calls_in_flight_finish_when_the_server_stops(kind: str) -> None:
    with served(kind) as server, grpc.insecure_channel(server.address) as channel:
        call = unary(channel, "Wait").future(b"0.5")
        wait_for(lambda: "waits" in server.rpcs.events, 20, "the RPC runs")
        started = time.monotonic()
        server.stop(10)
        assert time.monotonic() - started < 9
        assert call.result() == b"0.5"
        assert failed(lambda: unary(channel, "Echo")(b""))[0] is grpc.StatusCode.UNAVAILABLE


def test_calls_past_the_grace_are_cancelled(kind: str) -> None:
    with served(kind) as server, grpc.insecure_channel(server.address) as channel:
        call = unary(channel, "Wait").future(b"60")
        wait_for(lambda: "waits" in server.rpcs.events, 20, "the RPC runs")
        server.stop(0.2)
        assert call.exception().code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        wait_for(lambda: "cancelled" in server.rpcs.events, 20, "the RPC was cancelled")


def test_an_idle_server_stops_at_once(kind: str) -> None:
    with served(kind) as server, grpc.insecure_channel(server.address) as channel:
        unary(channel, "Echo")(b"")
        started = time.monotonic()
        server.stop(30)
        assert time.monotonic() - started < 9


def test_a_unix_socket(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for _ in range(2):
        with served(kind, "127.0.0.1:0", f"unix:{path}") as server:
            for target in (server.address, f"unix:{path}"):
                with grpc.insecure_channel(target) as channel:
                    assert unary(channel, "Echo")(b"x") == b"x"
            assert server.rpcs.callers[-1].peer.startswith("unix:")
        path.unlink(missing_ok=True)


def test_a_socket_file_that_was_left_is_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    command = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    subprocess.run(["python3", "-c", command, str(path)], check=True)
    with served(kind, f"unix:{path}"), grpc.insecure_channel(f"unix:{path}") as channel:
        assert unary(channel, "Echo")(b"x") == b"x"


@needs_native
def test_the_socket_file_of_a_successor_stays(tmp_path: Path) -> None:
    """grpcio takes it away."""
    path = tmp_path / "socket"
    with served(NATIVE, f"unix:{path}") as old, served(NATIVE, f"unix:{path}") as new:
        old.stop(0)
        with grpc.insecure_channel(f"unix:{path}") as channel:
            assert unary(channel, "Echo")(b"x") == b"x"
        assert new.rpcs.callers
        assert not old.rpcs.callers


def test_addresses_that_cannot_be_bound(kind: str, server: Served, tmp_path: Path) -> None:
    for address in (server.address, f"unix:{tmp_path}/nowhere/socket", "192.0.2.1:0"):
        with (
            pytest.raises(Unavailable, match=f"^The gRPC address {address} cannot be bound; is it in use?"),
            served(kind, address),
        ):
            pass


def test_servers_may_share_a_port(kind: str) -> None:
    with served(kind, reuse_port=True) as one, served(kind, one.address, reuse_port=True) as other:
        own = [("grpc.use_local_subchannel_pool", 1)]
        for _ in range(100):
            with grpc.insecure_channel(one.address, options=own) as channel:
                unary(channel, "Echo")(b"")
        assert one.rpcs.callers
        assert other.rpcs.callers
