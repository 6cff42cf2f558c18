"""`bridge serve`: the server in the foreground."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click
import uvloop

from bridge.app import Application
from bridge.cli.options import setting_options
from bridge.errors import BridgeError
from bridge.settings import build
from bridge.telemetry import logs


@click.command()
@setting_options()
def serve(**values: Any) -> None:
    """Serve models to TF Serving clients from Triton until SIGTERM.

    Prints one line `READY grpc=PORT rest=PORT` to stdout once every configured model serves or was decided.
    """
    values = {name: value for name, value in values.items() if value not in (None, ())}
    try:
        settings = build(values)
        logs.configure(settings.log_level)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(Application(settings, announce).serve())
    except BridgeError as error:
        print(f"bridge serve: {error.message}", file=sys.stderr)
        sys.exit(1)


def announce(ports: dict[str, int]) -> None:
    """The READY line; a port that is off shows as 0."""
    print(f"READY grpc={ports.get('grpc', 0)} rest={ports.get('rest', 0)}", flush=True)
