"""`bridge rollback`: what a model, a label or a vmodel resolved to before, again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from bridge.cli import connection, output
from bridge.errors import BridgeError, FailedPrecondition

JsonObject = Mapping[str, Any]


@click.command()
@click.argument("subject")
@click.option("--to", default="", metavar="TIME|#SEQ", help="What to go back to.  [default: before the last change]")
@click.option("--dry-run", is_flag=True, help="Tell what would change, and change nothing.")
@connection.changing
def rollback(subject: str, to: str, dry_run: bool) -> None:
    """Put back what SUBJECT resolved to: model:NAME, label:MODEL/LABEL, vmodel:ID, or a name that only one has.

    The versions that a model served then are loaded from the contents of then, checked, and held, whatever its policy
    says, until `bridge models unpin`, a later rollback, or a configuration with another entry for the model. TIME is
    ISO 8601, with an offset or in UTC; #SEQ is an event of the history, and means the state after it.
    """
    try:
        _rollback(subject, to, dry_run)
    except BridgeError as error:
        raise click.ClickException(error.message) from error


def _rollback(subject: str, to: str, dry_run: bool) -> None:
    admin = connection.connect()
    if not dry_run:
        answer = admin.roll_back(subject, to, connection.reason())
        _tell(answer, _done(answer))
        return
    plan = admin.rollback_plan(subject, to)
    _tell({"rollback": plan}, _preview(plan))
    if plan["refusal"]:
        raise FailedPrecondition(plan["refusal"])


def _tell(answer: JsonObject, sentence: str) -> None:
    if connection.wants_json():
        output.tell_json(answer)
        return
    plan = answer["rollback"]
    if plan["changes"]:
        rows = [(change["path"], _text(change["before"]), _text(change["after"])) for change in plan["changes"]]
        output.tell_table(("WHAT", "FROM", "TO"), rows)
    for content in plan["contents"]:
        place = content["place"] or "nowhere"
        output.tell_facts({f"version {content['version']}": f"{content['fingerprint'] or 'unknown'} {place}"})
    click.echo(sentence.translate(output.ESCAPES))


def _preview(plan: JsonObject) -> str:
    moment = output.moment(plan["at"])
    if plan["refusal"]:
        return f"{plan['subject']} cannot go back to {plan['reference']} ({moment})."
    if not plan["changes"]:
        return f"{plan['subject']} is as it was at {plan['reference']} ({moment}); nothing would change."
    return f"{plan['subject']} would go back to {plan['reference']} ({moment}); nothing was changed."


def _done(answer: JsonObject) -> str:
    plan = answer["rollback"]
    moment = output.moment(plan["at"])
    if not answer["changed"]:
        return f"{plan['subject']} is as it was at {plan['reference']} ({moment}); nothing was changed."
    return f"{plan['subject']} is as it was at {plan['reference']} ({moment}) again."


def _text(value: Any) -> str:
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
