"""`bridge history`: what happened, what was live when, and what differs between two times."""

from __future__ import annotations

from typing import Any

import click

from bridge.cli import connection, history_text, output
from bridge.cli.groups import ListingGroup

SUBJECT = "SUBJECT is model:NAME, label:MODEL/LABEL, vmodel:ID, instance:NAME, server, or a name that only one has."
TIME = "TIME is ISO 8601, with an offset or in UTC."


@click.group(cls=ListingGroup, context_settings={"ignore_unknown_options": True})
@connection.reading
def history() -> None:
    """List what happened, or tell what was live at a time and what changed."""


@history.command("list", epilog=f"{SUBJECT} {TIME}")
@click.argument("subject", default="")
@click.option("--from", "since", default="", metavar="TIME", help="Only events from this time on.")
@click.option("--until", default="", metavar="TIME", help="Only events before this time.")
@click.option("--actor", default="", help="Only what this actor did.")
@click.option("--action", default="", help="Only events of this kind, for example 'label set'.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events past this sequence number.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most that many.")
@connection.reading
def list_events(**wanted: Any) -> None:
    """List events, of SUBJECT or of everything, the newest last."""
    found = list(reversed(connection.history().history(wanted)))
    if connection.wants_json():
        output.tell_json({"history": found})
    else:
        output.tell_table(history_text.EVENT_COLUMNS, [history_text.event_row(event) for event in found])


@history.command(epilog=f"{TIME} {SUBJECT}")
@click.argument("time", metavar="TIME|#SEQ")
@click.argument("subject", default="")
@connection.reading
def at(time: str, subject: str) -> None:
    """Tell what was live at TIME, since when, put there by whom and why, and from which files.

    With SUBJECT also what was wanted of it and what was seen. #SEQ means the state after that event.
    """
    state = connection.history().at(time, subject)
    if connection.wants_json():
        output.tell_json({"state": state})
        return
    if state["gap"]:
        click.echo(history_text.gap(state["gap"]))
    if not subject:
        output.tell_table(history_text.LIVE_COLUMNS, history_text.live_rows(state["subjects"]))
    for found in state["subjects"] if subject else ():
        output.tell_facts(history_text.facts(found))


@history.command(epilog=f"{TIME} {SUBJECT}")
@click.argument("earlier", metavar="TIME")
@click.argument("later", metavar="TIME")
@click.argument("subject", default="")
@connection.reading
def diff(earlier: str, later: str, subject: str) -> None:
    """Tell what differs between two times: what was wanted, what was live, what was seen."""
    found = connection.history().diff(earlier, later, subject)
    if connection.wants_json():
        output.tell_json({"diff": found})
    else:
        output.tell_table(history_text.CHANGE_COLUMNS, history_text.change_rows(found["subjects"]))


@history.command(epilog=SUBJECT)
@click.argument("subject")
@click.option("--version", type=click.IntRange(0), help="Only times when this version could be called, by its number.")
@connection.reading
def live(subject: str, version: int | None) -> None:
    """Tell from when to when SUBJECT resolved to what."""
    found = connection.history().live(subject, version)
    if connection.wants_json():
        output.tell_json({"live": found})
    else:
        output.tell_table(history_text.INTERVAL_COLUMNS, [history_text.interval_row(item) for item in found])
