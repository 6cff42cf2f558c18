"""The `bridge` command."""

from __future__ import annotations

from importlib import import_module

import click

from bridge import __version__
from bridge.cli.groups import SentenceGroup

COMMANDS = {
    "db": "bridge.cli.db:db",
    "events": "bridge.cli.events:events",
    "export": "bridge.cli.export:export",
    "history": "bridge.cli.history:history",
    "import": "bridge.cli.import_:import_",
    "instances": "bridge.cli.instances:instances",
    "labels": "bridge.cli.labels:labels",
    "models": "bridge.cli.models:models",
    "rollback": "bridge.cli.rollback:rollback",
    "runtime": "bridge.cli.runtime:runtime",
    "serve": "bridge.cli.serve:serve",
    "verify": "bridge.cli.verify:verify",
    "versions": "bridge.cli.versions:versions",
    "vmodels": "bridge.cli.vmodels:vmodels",
}
"""Commands by name. A module is imported only when its command is called, so that each starts fast."""


class LazyGroup(SentenceGroup):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group("bridge", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bridge")
def main() -> None:
    """Serves TensorFlow Serving clients from NVIDIA Triton, and keeps the history of what was live."""
