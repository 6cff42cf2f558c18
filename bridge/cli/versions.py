"""`bridge versions`: what was observed of each version."""

from __future__ import annotations

import click

from bridge.cli import connection, output


@click.command()
@click.argument("model", required=False)
@connection.reading
def versions(model: str | None) -> None:
    """List the versions of all models or of MODEL, with their states and the instances that hold them."""
    found = connection.connect().versions(model)
    if connection.wants_json():
        output.tell_json({"versions": found})
        return
    output.tell_table(
        ("MODEL", "VERSION", "STATE", "SINCE", "INSTANCES", "PATH", "ERROR"),
        [
            (
                item["model"],
                str(item["version"]),
                item["state"],
                output.moment(item["updated_at"]),
                output.joined(item["instances"]),
                item["path"],
                f"{item['code']}: {item['message']}" if item["code"] != "OK" else "",
            )
            for item in found
        ],
    )
