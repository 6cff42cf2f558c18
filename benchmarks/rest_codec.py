"""What reading and writing JSON costs the bridge, against orjson and numpy on the same content, in one process."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import orjson

from benchmarks.comparison import Effort
from benchmarks.payloads import MEGABYTE_COUNT, nine_digits
from benchmarks.results import Json
from bridge.codec.native import LIBRARY
from bridge.codec.rest_request import parse_predict_body, tensors
from bridge.codec.rest_response import predict_json
from bridge.serving.routes import TensorRoute

FLOAT = 1
INPUT = TensorRoute("x", "x:0", FLOAT)
WIDTH = 1000
REPEATS = 5


def rest_codec(effort: Effort, scratch: Path) -> Json:
    """A body of 1 MB whose numbers need nine digits: rows of 1,000, and one column; the answer has the same numbers."""
    x = nine_digits(MEGABYTE_COUNT)
    figures = {
        "rows": _compare(b"instances", _text(x.reshape(-1, WIDTH)), effort.rounds),
        "columns": _compare(b"inputs", _text(x.reshape(1, -1))[1:-1], effort.rounds),
    }
    return {"figures": {"compiled": LIBRARY is not None, **figures}}


def _text(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    return b"[%s]" % b",".join(b"[%s]" % ",".join(f"{value:.9g}" for value in row).encode() for row in rows.tolist())


def _compare(key: bytes, numbers: bytes, rounds: int) -> Json:
    """Medians over rounds of the quickest of a few calls, and of the rounds' ratios; milliseconds."""
    body = b'{"%s":%s}' % (key, numbers)
    pairs = [(quickest(partial(_bridge, body)), quickest(partial(plain, body))) for _ in range(rounds)]
    return {
        "body_bytes": len(body),
        "bridge_ms": round(median(ours for ours, _ in pairs) * 1e3, 2),
        "orjson_ms": round(median(theirs for _, theirs in pairs) * 1e3, 2),
        "ratio": round(median(ours / theirs for ours, theirs in pairs), 3),
    }


def _bridge(body: bytes) -> bytes:
    request = parse_predict_body(body)
    return predict_json([("y", tensors(request, [INPUT])["x"])], request.row)


def plain(body: bytes) -> bytes:
    """Read a body of one member into an array, and print that: what the bridge's codec is compared with."""
    (numbers,) = orjson.loads(body).values()
    return orjson.dumps({"predictions": np.array(numbers, np.float32)}, option=orjson.OPT_SERIALIZE_NUMPY)


def quickest(function: Callable[[], bytes]) -> float:
    """Seconds of the quickest of a few calls."""
    gc.collect()
    seconds = []
    for _ in range(REPEATS):
        begin = perf_counter()
        function()
        seconds.append(perf_counter() - begin)
    return min(seconds)
