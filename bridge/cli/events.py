"""`bridge events`: the newest part of the history."""

from __future__ import annotations

import json
from typing import Any

import click

from bridge.cli import connection, output


@click.command()
@click.option("--subject", help="Only events about this, for example model:half_plus_two.")
@click.option("--action", help="Only events of this kind, for example 'label set'.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events past this sequence number.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most that many.")
@connection.reading
def events(subject: str | None, action: str | None, after: int, limit: int) -> None:
    """List the newest events, the newest last."""
    found = list(reversed(connection.connect().events(subject, action, after, limit)))
    if connection.wants_json():
        output.tell_json({"events": found})
        return
    output.tell_table(
        ("SEQ", "TIME", "SUBJECT", "ACTION", "BEFORE", "AFTER", "ACTOR", "REASON"),
        [
            (
                str(event["seq"]),
                output.moment(event["at"]),
                event["subject"],
                event["action"],
                _state(event["before"]),
                _state(event["after"]),
                f"{event['actor']} ({event['source']})",
                event["reason"],
            )
            for event in found
        ],
    )


def _state(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
