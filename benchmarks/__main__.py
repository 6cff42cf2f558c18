"""Measures the bridge, on one machine in one run: python -m benchmarks [SECTION …] [--quick]

One Triton serves all: its gRPC and HTTP ports are called directly, through nginx, through bridges of several kinds, and
with a model that only answers its input, as the floor. Sections that are not named keep their results of before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import grpc

from benchmarks import page
from benchmarks.alone import large, memory, runner, start
from benchmarks.calls import WrongAnswer
from benchmarks.comparison import Effort
from benchmarks.h2load import LoadFailed
from benchmarks.hot_path import profile
from benchmarks.record import Record
from benchmarks.rest_codec import rest_codec
from benchmarks.results import Json
from benchmarks.stand import Stand, stand
from benchmarks.targets import as_markdown
from benchmarks.traffic import latency, rest, routes, sizes, string_tensors, throughput

ON_STAND: Mapping[str, Callable[[Stand, Effort, Path], Json]] = {
    "latency": latency,
    "throughput": throughput,
    "sizes": sizes,
    "strings": string_tensors,
    "rest": rest,
    "routes": routes,
    "profile": profile,
}
ALONE: Mapping[str, Callable[[Effort, Path], Json]] = {
    "rest_codec": rest_codec,
    "large": large,
    "runner": runner,
    "memory": memory,
    "start": start,
}
FULL, QUICK = Effort(rounds=5, seconds=0.5), Effort(rounds=1, seconds=0.1)


def main() -> int:
    arguments = parse(sys.argv[1:])
    names = arguments.sections or [*ON_STAND, *ALONE]
    usual = QUICK if arguments.quick else FULL
    effort = Effort(arguments.rounds or usual.rounds, arguments.seconds or usual.seconds)
    record = Record(arguments.output, [*ON_STAND, *ALONE])
    begin, failure = time.monotonic(), None
    try:
        bench(names, effort, record, quick=arguments.quick)
    except (LoadFailed, WrongAnswer, RuntimeError, OSError, grpc.RpcError) as error:
        failure = error
    results = record.content()
    page.renew(results, arguments.page)
    print(as_markdown(results["sections"]))
    print(f"took {time.monotonic() - begin:.0f} s", file=sys.stderr)
    if failure is not None:
        print(f"The benchmark failed, and what it had measured until then was kept: {failure}", file=sys.stderr)
    return 0 if failure is None else 1


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures the bridge.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"all, or of {', '.join([*ON_STAND, *ALONE])}")
    parser.add_argument("--quick", action="store_true", help="one short round, which only shows that everything works")
    parser.add_argument("--rounds", type=int, help=f"of each comparison; {FULL.rounds}")
    parser.add_argument("--seconds", type=float, help=f"of each measurement, about; {FULL.seconds}")
    parser.add_argument("--output", type=Path, default=page.RESULTS)
    parser.add_argument("--page", type=Path, default=page.PAGE, help="filled with the results; pictures come beside it")
    parsed = parser.parse_args(arguments)
    if unknown := set(parsed.sections) - {*ON_STAND, *ALONE}:
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    return parsed


def bench(names: list[str], effort: Effort, record: Record, *, quick: bool) -> None:
    """Measure these sections and record each. The stand is up only while sections run that need it."""
    with tempfile.TemporaryDirectory(prefix="bridge-bench-") as directory:
        scratch = Path(directory)
        for name in [name for name in ALONE if name in names]:
            record.add(name, measured(partial(ALONE[name], effort, scratch), effort, quick))
        if wanted := [name for name in ON_STAND if name in names]:
            with stand(scratch) as servers:
                record.of_triton(servers.triton.version())
                for name in wanted:
                    record.add(name, measured(partial(ON_STAND[name], servers, effort, scratch), effort, quick))


def measured(run: Callable[[], Json], effort: Effort, quick: bool) -> Json:
    before, began = load_average(), time.monotonic()
    content = run()
    conditions = {"rounds": effort.rounds, "quick": quick, "seconds": round(time.monotonic() - began)}
    return {**conditions, "load_average": [before, load_average()], **content}


def load_average() -> float:
    """How many processes wanted to run in the last minute."""
    return round(os.getloadavg()[0], 1)


if __name__ == "__main__":
    sys.exit(main())
