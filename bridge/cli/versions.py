"""`bridge versions`: what was observed of each version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from bridge.cli import connection, output
from bridge.cli.groups import ListingGroup


@click.group(cls=ListingGroup)
@connection.reading
def versions() -> None:
    """List versions, or tell what they were loaded from."""


@versions.command("list")
@click.argument("model", required=False)
@connection.reading
def list_versions(model: str | None) -> None:
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


@versions.command()
@click.argument("model")
@click.argument("version", type=click.IntRange(0, 2**63 - 1), required=False)
@connection.reading
def provenance(model: str, version: int | None) -> None:
    """Tell what the versions of MODEL, or one VERSION, were loaded from, the content seen last first."""
    found = connection.connect().provenance(model, version)
    if connection.wants_json():
        output.tell_json({"provenance": found})
        return
    for item in found:
        output.tell_facts(_facts(item))


def _facts(item: Mapping[str, Any]) -> dict[str, str]:
    facts = {
        "version": str(item["version"]),
        "fingerprint": item["fingerprint"],
        "files": f"{item['path']}, {item['size']} bytes",
        "signatures": output.joined(item["signatures"]),
        "seen": f"{output.moment(item['first_seen_at'])} to {output.moment(item['last_seen_at'])}",
    }
    if item["tensorflow"]:
        facts["TensorFlow's fingerprint"] = output.joined(
            [f"{name}={text}" for name, text in item["tensorflow"].items()]
        )
    if item["found"]:
        facts["there now"] = item["found"]
    return facts
