"""`bridge vmodels`: names for registered models that move from model to model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from bridge.cli import connection, output
from bridge.cli.groups import ListingGroup

JsonObject = Mapping[str, Any]


@click.group(cls=ListingGroup)
@connection.reading
def vmodels() -> None:
    """List vmodels, show one, move it to another model, or delete it."""


@vmodels.command("list")
@connection.reading
def list_vmodels() -> None:
    """List the vmodels."""
    found = connection.connect().vmodels()
    if connection.wants_json():
        output.tell_json({"vmodels": found})
        return
    output.tell_table(
        ("VMODEL", "STATE", "ACTIVE", "TARGET", "OWNER", "ERRORS"),
        [
            (item["id"], item["state"], item["active"], item["target"], item["owner"], output.joined(item["errors"]))
            for item in found
        ],
    )


@vmodels.command()
@click.argument("vmodel")
@connection.reading
def show(vmodel: str) -> None:
    """Show everything about VMODEL."""
    (found,) = connection.connect().vmodels(vmodel)
    if connection.wants_json():
        output.tell_json({"vmodel": found})
        return
    output.tell_facts(_facts(found))
    for error in found["errors"]:
        output.tell_facts({"error": error})


@vmodels.command("set")
@click.argument("vmodel")
@click.argument("target")
@click.option("--type", "kind", default="", help="Type of the model TARGET, which is registered if it is not there.")
@click.option("--path", default="", help="Where that model lies.")
@click.option("--key", default="", help="Further parameters of that model.")
@click.option("--auto-delete", is_flag=True, help="Unregister that model with the last vmodel that refers to it.")
@click.option("--load-now", is_flag=True, help="Load TARGET at once, even if the active model is not loaded.")
@click.option("--force", is_flag=True, help="Make TARGET active at once, loaded or not.")
@click.option("--expected-target", default="", help="Change nothing unless this is the target now.")
@click.option("--owner", default="", help="Owner of a new vmodel; one that is there has to have this owner.")
@click.option("--update-only", is_flag=True, help="Do not create a vmodel.")
@click.option("--wait", is_flag=True, help="Return when the transition ended, well or not.")
@connection.changing
def set_vmodel(vmodel: str, target: str, kind: str, path: str, key: str, wait: bool, **options: Any) -> None:
    """Have VMODEL mean the model TARGET, which takes over when it is loaded."""
    info = {"type": kind, "path": path, "key": key} if kind or path or key else None
    wanted = {"target": target, "info": info, "wait": wait, **options}
    changed = connection.connect().set_vmodel(vmodel, wanted, connection.reason())
    _tell(f"The target of vmodel {vmodel} is {target}.", changed)


@vmodels.command()
@click.argument("vmodel")
@connection.changing
def delete(vmodel: str) -> None:
    """Delete VMODEL, and the models that are to go with it."""
    changed = connection.connect().delete_vmodel(vmodel, connection.reason())
    _tell(f"There is no vmodel {vmodel}.", changed)


def _facts(vmodel: JsonObject) -> dict[str, str]:
    facts = {
        "vmodel": vmodel["id"],
        "owner": vmodel["owner"],
        "state": vmodel["state"],
        "active": _with_status(vmodel["active"], vmodel["active_status"]),
    }
    if vmodel["target"] != vmodel["active"]:
        facts["target"] = _with_status(vmodel["target"], vmodel["target_status"])
    return facts | {"changed": output.moment(vmodel["updated_at"])}


def _with_status(model: str, status: str) -> str:
    return f"{model} ({status})" if status else model


def _tell(sentence: str, changed: bool) -> None:
    if connection.wants_json():
        output.tell_json({"changed": changed})
    else:
        output.tell_change(sentence, changed)
