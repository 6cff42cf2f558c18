"""Frames between runners and their engine over a real socket, whole and in pieces."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from model_repo_sync.runner.tensorflow_engine.dtypes import BY_NAME, DTYPES, DType
from model_repo_sync.runner.tensorflow_engine.feed import Feed
from model_repo_sync.runner.tensorflow_engine.frames import CHUNK, Connection, EngineLost
from model_repo_sync.runner.tensorflow_engine.tensor_lists import (
    decode_arrays,
    decode_feeds,
    encode_arrays,
    encode_feeds,
)

Pair = tuple[Connection, Connection]


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def pair(sockets: tuple[socket.socket, socket.socket]) -> Pair:
    return Connection(sockets[0]), Connection(sockets[1])


@pytest.mark.parametrize("size", [0, 1, 7, 8, CHUNK - 1, CHUNK, 3 * CHUNK + 5])
def test_frames_of_any_size(pair: Pair, size: int) -> None:
    left, right = pair
    part = bytes(index % 251 for index in range(size))
    sender = threading.Thread(target=left.send, args=(-3, b"why", [2**62, -1], [part, b"end"]))
    sender.start()
    frame = right.receive()
    sender.join()
    assert (frame.code, frame.text, frame.integers) == (-3, b"why", (2**62, -1))
    assert bytes(frame.data[:size]) == part
    start = size + -size % 8
    assert bytes(frame.data[start : start + 3]) == b"end"


def test_a_frame_that_comes_byte_by_byte(sockets: tuple[socket.socket, socket.socket]) -> None:
    recorded, played = socket.socketpair()
    with recorded, played:
        Connection(recorded).send(0, b"text", [1], [b"data"])
        content = played.recv(CHUNK)

    def trickle() -> None:
        for index in range(len(content)):
            sockets[0].sendall(content[index : index + 1])

    sender = threading.Thread(target=trickle)
    sender.start()
    frame = Connection(sockets[1]).receive()
    sender.join()
    assert (frame.text, frame.integers, bytes(frame.data[:4])) == (b"text", (1,), b"data")


@pytest.mark.parametrize("begun", [0, 5, 30])
def test_the_end_of_the_other_side(sockets: tuple[socket.socket, socket.socket], begun: int) -> None:
    recorded, played = socket.socketpair()
    with recorded, played:
        Connection(recorded).send(0, b"text", [1], [b"data"])
        sockets[0].sendall(played.recv(CHUNK)[:begun])
    sockets[0].close()
    with pytest.raises(EngineLost):
        Connection(sockets[1]).receive()


def test_sending_to_nobody(sockets: tuple[socket.socket, socket.socket]) -> None:
    sockets[1].close()
    with pytest.raises(EngineLost):
        Connection(sockets[0]).send(0, b"text")


def arrays(dtype: DType, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    if dtype.is_string:
        array = np.empty(shape, object)
        array.reshape(-1)[:] = [bytes([index]) * index for index in range(array.size)]
        return array
    return (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype.numpy).reshape(shape)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 1)], ids=str)
def test_tensors_of_all_dtypes(pair: Pair, shape: tuple[int, ...]) -> None:
    dtypes = list(DTYPES.values())
    wire = [shape if dtype.multiplicity == 1 else (*shape, dtype.multiplicity) for dtype in dtypes]
    given = [arrays(dtype, dims) for dtype, dims in zip(dtypes, wire, strict=True)]
    pair[0].send(0, b"", *encode_arrays(dtypes, given))
    frame = pair[1].receive()
    for array, expected in zip(decode_arrays(dtypes, frame.integers, frame.data), given, strict=True):
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        assert array.tolist() == expected.tolist()


def test_feeds_of_several_arrays(pair: Pair) -> None:
    dtype = BY_NAME["float"]
    rows = [np.array([[1, 2]], "float32"), np.array([[3, 4], [5, 6]], "float32")]
    words = np.array([b"a", b""], object)
    feeds = [Feed("x:0", dtype, (3, 2), rows), Feed("s:0", BY_NAME["string"], (2,), [words])]
    pair[0].send(0, b"", *encode_feeds(feeds))
    frame = pair[1].receive()
    x, s = decode_feeds(["x:0", "s:0"], [dtype, BY_NAME["string"]], frame.integers, frame.data)
    assert (x.name, x.shape, x.arrays[0].tolist()) == ("x:0", (3, 2), [1, 2, 3, 4, 5, 6])
    assert (s.name, s.shape, s.arrays[0].tolist()) == ("s:0", (2,), [b"a", b""])
