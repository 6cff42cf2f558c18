"""Fuzzes a surface of the server with Atheris, guided by the coverage of the bridge's code.

Surfaces are `grpc`, `rest` and `url` of TensorFlow Serving's clients, `v2_grpc` and `v2_rest` of KServe's.

python -m tests.fuzz SURFACE [--inputs N] [--seed N] [--keep DIRECTORY]
python -m tests.fuzz SURFACE --to HOST:PORT --keep DIRECTORY      # a server that runs, without guidance

The first wrong answer, crash or hang ends it with the input that did it. `--keep` holds the inputs that reached
something new; a later run starts from them.
"""

from __future__ import annotations

import argparse
import base64
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["bridge.codec", "bridge.kserve", "bridge.serving", "bridge.tfserving"]):
    from tests.fuzz.served import Served
from tests.fuzz import requests, v2_requests
from tests.fuzz.surfaces import RELOAD, GrpcSurface, RestBodySurface, Surface, UrlSurface, V2BodySurface, Wrong
from tests.fuzz.vocabulary import write_dictionary

LONGEST = 4096
"""Bytes of an input."""
ALIVE_EVERY = 500
MEMORY_MB = 4096
STUCK_SECONDS = 30
GUIDED = 0.7
"""Share of the mutations that keep the request well formed, where there are such."""
SURFACES = ("grpc", "rest", "url", "v2_grpc", "v2_rest")
GRPC_OF_MODELS = frozenset({"RESOURCE_EXHAUSTED"})


class Errors(logging.Handler):
    """Everything that the server logs as an error; there must be nothing."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Fuzzing:
    """Asks one input after the other and ends the process after `inputs` of them."""

    def __init__(self, surface: Surface, arguments: argparse.Namespace, directory: Path) -> None:
        self._surface = surface
        self._name = arguments.surface
        self._inputs = arguments.inputs
        self._seed = arguments.seed
        self._directory = directory
        self._done = 0
        self._began = time.monotonic()
        self._errors = Errors()
        logging.getLogger().addHandler(self._errors)

    def one(self, data: bytes) -> None:
        try:
            self._surface.ask(data)
            if self._done % ALIVE_EVERY == 0:
                self._surface.check_alive()
            if self._errors.lines:
                raise Wrong(f"the server logged: {self._errors.lines[0]}")
        except BaseException:
            print(f"{self._name}: input {self._done} of seed {self._seed}: {base64.b64encode(data).decode()}")
            raise
        self._done += 1
        if self._done >= self._inputs:
            self._end()

    def mutate(self, data: bytes, longest: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < GUIDED:
            made = self._surface.mutate(data, chance)
            if made is not None and len(made) <= longest:
                return made
        mutated: bytes = atheris.Mutate(data, longest)
        return mutated

    def _end(self) -> None:
        self._surface.check_alive()
        seconds = time.monotonic() - self._began
        counts = ", ".join(f"{code} {count}" for code, count in self._surface.counts.most_common())
        print(
            f"{self._name}: {self._done} inputs in {seconds:.0f} s, seed {self._seed}, no fault: {counts}", flush=True
        )
        shutil.rmtree(self._directory)
        # libFuzzer would go on for ever, and the server's threads with it.
        os._exit(0)


def main() -> None:
    arguments = _arguments()
    directory = Path(tempfile.mkdtemp(prefix="fuzz-"))
    kept = Path(arguments.keep or directory / "kept")
    kept.mkdir(parents=True, exist_ok=True)
    # The double has to outlive the run.
    served = None if arguments.to else Served()
    grpc, rest = (served.grpc, served.rest) if served else (arguments.to, arguments.to)
    surface = _surface(arguments.surface, grpc, rest, real=served is None)
    for number, data in enumerate(surface.seeds()):
        (kept / f"seed-{number}").write_bytes(data)
    fuzzing = Fuzzing(surface, arguments, directory)
    options = {
        "seed": arguments.seed,
        "max_len": LONGEST,
        "timeout": STUCK_SECONDS,
        "rss_limit_mb": MEMORY_MB,
        "dict": write_dictionary(directory / "words"),
        "artifact_prefix": f"{directory}/",
        "verbosity": 0,
    }
    flags = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup([sys.argv[0], *flags, str(kept)], fuzzing.one, custom_mutator=fuzzing.mutate)
    atheris.Fuzz()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("surface", choices=SURFACES)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    parser.add_argument("--keep", default="")
    parser.add_argument("--to", default="")
    return parser.parse_args()


def _surface(name: str, grpc: str, rest: str, *, real: bool) -> Surface:
    """A real server is not reconfigured."""
    more = GRPC_OF_MODELS if real else frozenset()
    if name == "grpc":
        good = [(rpc, message) for rpc, message in requests.messages() if not (real and rpc.name == RELOAD)]
        return GrpcSurface(grpc, good, more=more)
    if name == "v2_grpc":
        return GrpcSurface(grpc, v2_requests.messages(), more=more)
    kinds: dict[str, Callable[[str], Surface]] = {"rest": RestBodySurface, "url": UrlSurface, "v2_rest": V2BodySurface}
    return kinds[name](rest)


if __name__ == "__main__":
    main()
