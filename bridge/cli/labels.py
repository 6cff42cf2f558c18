"""`bridge labels`: names for versions that clients use instead of numbers."""

from __future__ import annotations

import click

from bridge.cli import connection, output
from bridge.cli.groups import ListingGroup


@click.group(cls=ListingGroup)
@connection.reading
def labels() -> None:
    """List labels, point one at a version, or remove it."""


@labels.command("list")
@click.argument("model", required=False)
@connection.reading
def list_labels(model: str | None) -> None:
    """List the labels of all models or of MODEL."""
    found = connection.connect().labels(model)
    if connection.wants_json():
        output.tell_json({"labels": found})
        return
    output.tell_table(
        ("MODEL", "LABEL", "VERSION", "ASSIGNED"),
        [
            (item["model"], item["label"], str(item["version"]), "yes" if item["assigned"] else "waits")
            for item in found
        ],
    )


@labels.command("set")
@click.argument("model")
@click.argument("label")
@click.argument("version", type=click.IntRange(0, 2**63 - 1))
@connection.changing
def set_label(model: str, label: str, version: int) -> None:
    """Point LABEL of MODEL at VERSION, which has to serve already where a server runs."""
    changed = connection.connect().set_label(model, label, version, connection.reason())
    _tell(f"Label {label} of model {model} points at version {version}.", changed)


@labels.command("remove")
@click.argument("model")
@click.argument("label")
@connection.changing
def remove_label(model: str, label: str) -> None:
    """Remove LABEL from MODEL."""
    changed = connection.connect().remove_label(model, label, connection.reason())
    _tell(f"Model {model} has no label {label}.", changed)


def _tell(sentence: str, changed: bool) -> None:
    if connection.wants_json():
        output.tell_json({"changed": changed})
    else:
        output.tell_change(sentence, changed)
