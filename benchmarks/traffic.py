"""The sections that send requests to the stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.calls import Call
from benchmarks.comparison import Effort, compare
from benchmarks.payloads import MEGABYTE_COUNT, SMALL, floats, nine_digits, sized, strings
from benchmarks.rest_codec import plain, quickest
from benchmarks.results import Json, Measurement, as_json
from benchmarks.stand import BARE, GRPCIO, MANY, NATIVE, NGINX, WORKERS, Stand

SIZES = tuple(1 << power for power in (4, 10, 14, 17, 20, 22, 24, 26))


def latency(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """A small tensor, one request at a time."""
    calls = stand.grpc_calls(SMALL, NGINX, NATIVE, GRPCIO, WORKERS, BARE)
    return {"rows": as_json(compare("gRPC", SMALL, calls, 1, effort, scratch))}


def throughput(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """A small tensor, several requests in flight."""
    calls = stand.grpc_calls(SMALL, NGINX, NATIVE, GRPCIO, WORKERS, BARE)
    return {"rows": _rows(compare("gRPC", SMALL, calls, in_flight, effort, scratch) for in_flight in (8, 32))}


def sizes(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """Tensors of all sizes, one request at a time, and 4 MB eight at a time."""

    def found() -> Iterator[Sequence[Measurement]]:
        for size in SIZES:
            payload = sized(size)
            yield compare("gRPC", payload, stand.grpc_calls(payload, NATIVE, GRPCIO), 1, effort, scratch)
        payload = sized(4 << 20)
        yield compare("gRPC", payload, stand.grpc_calls(payload, NATIVE, GRPCIO), 8, effort, scratch)

    return {"rows": _rows(found())}


def string_tensors(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """A few strings, and many."""
    payloads = [strings(f"{count} strings", [b"%020d" % number for number in range(count)]) for count in (4, 10_000)]
    return {
        "rows": _rows(
            compare("gRPC", payload, stand.grpc_calls(payload, NATIVE, GRPCIO), in_flight, effort, scratch)
            for payload in payloads
            for in_flight in (1, 8)
        )
    }


def rest(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """JSON, rows and columns, against Triton's own JSON of the same numbers; and the processor time of a bridge's
    process for a request of 1 MB, with HTTP and the exchange with Triton, against orjson and numpy."""
    megabyte = floats("1 MB of JSON", nine_digits(MEGABYTE_COUNT))

    def found() -> Iterator[Sequence[Measurement]]:
        for payload in (SMALL, megabyte):
            for row in (True, False):
                for in_flight in (1, 8):
                    protocol = "REST rows" if row else "REST columns"
                    calls = stand.rest_calls(payload, row=row)
                    yield compare(protocol, payload, calls, in_flight, effort, scratch)

    figures = {
        name: _rest_processor(stand, stand.rest_calls(megabyte, row=row)[1], effort, scratch)
        for name, row in (("rows", True), ("columns", False))
    }
    return {"rows": _rows(found()), "figures": figures}


def _rest_processor(stand: Stand, call: Call, effort: Effort, scratch: Path) -> Json:
    """Milliseconds of processor time, and the median of the rounds' ratios."""
    requests = max(10, int(200 * effort.seconds))
    call.load(requests, 1, scratch)
    pairs = [
        (_processor_us(stand, call, requests, 1, scratch) / 1e3, quickest(partial(plain, call.body)) * 1e3)
        for _ in range(effort.rounds)
    ]
    return {
        "bridge_ms": round(median(ours for ours, _ in pairs), 2),
        "orjson_ms": round(median(theirs for _, theirs in pairs), 2),
        "ratio": round(median(ours / theirs for ours, theirs in pairs), 3),
    }


def routes(stand: Stand, effort: Effort, scratch: Path) -> Json:
    """One model in the routes against 1,000: the whole exchange, and the processor time of the bridge's process."""
    calls = stand.grpc_calls(SMALL, NATIVE, MANY)
    measured = compare("gRPC", SMALL, calls, 1, effort, scratch)
    spent: dict[str, list[float]] = {NATIVE: [], MANY: []}
    requests = max(100, int(2000 * effort.seconds))
    for _ in range(effort.rounds):
        for call in calls:
            if call.path in spent:
                spent[call.path].append(_processor_us(stand, call, requests, 8, scratch))
    ratio = median(many / one for one, many in zip(spent[NATIVE], spent[MANY], strict=True))
    figures = {path: {"processor_us": round(median(values), 1)} for path, values in spent.items()}
    return {"rows": as_json(measured), "figures": {**figures, "processor_ratio": round(ratio, 3)}}


def _processor_us(stand: Stand, call: Call, requests: int, in_flight: int, scratch: Path) -> float:
    """Microseconds of processor time that the bridge's process spends on one request."""
    process = stand.bridges[call.path].process.pid
    before = _processor_seconds(process)
    call.load(requests, in_flight, scratch)
    return (_processor_seconds(process) - before) / requests * 1e6


def _processor_seconds(process: int) -> float:
    """Of all threads of a process, by the scheduler's clock."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _rows(comparisons: Iterable[Sequence[Measurement]]) -> list[Json]:
    return as_json([measurement for measurements in comparisons for measurement in measurements])
