"""`bridge instances`: the Tritons and what they hold."""

from __future__ import annotations

import click

from bridge.cli import connection, output


@click.command()
@connection.reading
def instances() -> None:
    """List the Triton instances with their states, addresses and the models that they hold."""
    found = connection.connect().instances()
    if connection.wants_json():
        output.tell_json({"instances": found})
        return
    output.tell_table(
        ("INSTANCE", "STATE", "GRPC", "HTTP", "OWNER", "COPIES", "REASON"),
        [
            (
                item["name"],
                item["state"],
                item["grpc"],
                item["http"],
                item["owner"],
                output.joined(item["copies"]),
                item["reason"],
            )
            for item in found
        ],
    )
