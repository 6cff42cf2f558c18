"""Groups of commands: errors in one sentence, and a listing where no command is named."""

from __future__ import annotations

from typing import Any

import click

from bridge.errors import BridgeError


class SentenceGroup(click.Group):
    """Tells an error of the bridge in one sentence on stderr, with exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BridgeError as error:
            raise click.ClickException(error.message) from error


class ListingGroup(SentenceGroup):
    """A group whose command `list` is meant where none is named: `labels` and `labels MODEL` list labels."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options["invoke_without_command"] = True
        super().__init__(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        return result if ctx.invoked_subcommand else ctx.invoke(self.commands["list"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["list", *args])
