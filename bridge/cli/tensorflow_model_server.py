"""`tensorflow_model_server`: the stock binary's command line in front of this server.

Its exit codes and streams are part of the contract: scripts read them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

from bridge import __version__
from bridge.errors import BridgeError, InvalidArgument
from bridge.settings import Settings
from bridge.telemetry import logs
from bridge.tfserving import flag_table
from bridge.tfserving.flags import Value, parse, usage

logger = logging.getLogger(__name__)

FAILURE = 255
"""The stock binary returns -1 from main for whatever it refuses, --help included."""

COMPATIBLE_WITH = "2.20.0"
"""The release of TF Serving whose behaviour this server has."""


def main() -> None:
    """The entry point."""
    sys.exit(run(sys.argv, os.environ))


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the server for a command line, its first word the program's name; the exit code."""
    logs.configure("info")
    variables = flag_table.from_environment(environment)
    line = parse(arguments[1:], flag_table.FLAGS)
    text = usage(arguments[0], flag_table.FLAGS)
    for fault in (*variables.faults, *line.faults):
        logger.error(fault)
    if variables.faults or not line.understood:
        print(text, end="", flush=True)
        return FAILURE
    if line.values.get("version"):
        print(_versions(), flush=True)
        return 0
    if line.leftovers:
        print(f"unknown argument: {line.leftovers[0]}\n{text}", end="", flush=True)
    try:
        _serve({**variables.values, **line.values})
    except BridgeError as error:
        print(f"Failed to start server. Error: {error.code.name}: {error.message}", flush=True)
        return FAILURE
    return 0


def _versions() -> str:
    try:
        library = metadata.version("tensorflow")
    except metadata.PackageNotFoundError:
        library = "not installed here"
    return f"TensorFlow ModelServer: {COMPATIBLE_WITH}+triton-bridge.{__version__}\nTensorFlow Library: {library}"


def _serve(given: Mapping[str, Value]) -> None:
    # Imported here: command lines that only print need nothing of it.
    import uvloop

    from bridge.app import Application
    from bridge.state_dir import StateDir
    from bridge.tfserving.start_check import check
    from bridge.transport.server import GrpcBindError

    settings = flag_table.settings(given)
    logs.configure(settings.log_level)
    for name, reason in flag_table.without_effect(given).items():
        logger.info("--%s has no effect here: %s", name, reason)
    check(settings, str(given.get("thread_pool_factory_config_file", "")))
    state = None if {"state_dir", "database_url"} & given.keys() else StateDir.private()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        application = Application(settings, _announcer(settings), state=state, models_first=True)
        try:
            runner.run(application.serve())
        except GrpcBindError as error:
            logger.error(error.message)
            raise InvalidArgument("Failed to BuildAndStart gRPC server") from error


def _announcer(settings: Settings) -> Callable[[dict[str, int]], None]:
    """The lines that scripts wait for."""

    def announce(ports: dict[str, int]) -> None:
        if "grpc" in ports:
            logger.info("Running gRPC ModelServer at 0.0.0.0:%d ...", ports["grpc"])
        if settings.grpc_socket_path:
            logger.info("Running gRPC ModelServer at UNIX socket %s ...", settings.grpc_socket_path)
        if "rest" in ports:
            logger.info("Exporting HTTP/REST API at:localhost:%d ...", ports["rest"])
            logger.info("[evhttp_server.cc : 245] NET_LOG: Entering the event loop ...")

    return announce
