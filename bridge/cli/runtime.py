"""`bridge runtime`: the sidecar of a ModelMesh in the foreground."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click
import uvloop

from bridge.cli.options import Truth, setting_options
from bridge.errors import BridgeError
from bridge.runtime.app import RuntimeApplication
from bridge.runtime.settings import LISTEN, SHARED, RuntimeSettings
from bridge.settings import build
from bridge.telemetry import logs


@click.command()
@click.option(
    "--listen", default=LISTEN, envvar="BRIDGE_LISTEN", show_default=True, help="HOST:PORT or unix:PATH to serve on"
)
@click.option(
    "--max_concurrency",
    type=int,
    default=0,
    envvar="BRIDGE_MAX_CONCURRENCY",
    show_default=True,
    help="requests that ModelMesh may send to one model at a time; 0 is no limit",
)
@click.option(
    "--allow_any_method",
    type=Truth(),
    is_flag=False,
    flag_value="true",
    default=False,
    envvar="BRIDGE_ALLOW_ANY_METHOD",
    help="let ModelMesh forward methods of which it does not know where they name the model",
)
@setting_options(SHARED)
def runtime(listen: str, max_concurrency: int, allow_any_method: bool, **values: Any) -> None:
    """Serve mmesh.ModelRuntime to a ModelMesh until SIGTERM, with one Triton.

    Prints one line `LISTENING ADDRESS` to stdout once it may be called.
    """
    values = {name: value for name, value in values.items() if value not in (None, ())}
    try:
        settings = RuntimeSettings(build(values), listen, max_concurrency, allow_any_method)
        settings.check()
        logs.configure(settings.server.log_level)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(RuntimeApplication(settings, announce).serve())
    except BridgeError as error:
        print(f"bridge runtime: {error.message}", file=sys.stderr)
        sys.exit(1)


def announce(address: str) -> None:
    """The line that says where the sidecar listens."""
    print(f"LISTENING {address}", flush=True)
