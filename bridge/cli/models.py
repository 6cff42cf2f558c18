"""`bridge models`: what is configured, and which versions it serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from bridge.cli import connection, output
from bridge.cli.groups import ListingGroup
from model_repo_sync.policy import Policy, from_json, parse

JsonObject = Mapping[str, Any]


class PolicyType(click.ParamType["Policy"]):
    """`latest`, `latest:N`, `all` or `specific:V,V,...`."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy:
        try:
            return parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=ListingGroup)
@connection.reading
def models() -> None:
    """List models, show one, or choose the versions that it serves."""


@models.command("list")
@click.argument("name", required=False)
@connection.reading
def list_models(name: str | None) -> None:
    """List the models, or the one called NAME."""
    found = connection.connect().models(name)
    if connection.wants_json():
        output.tell_json({"models": found})
        return
    output.tell_table(
        ("MODEL", "OWNER", "POLICY", "AVAILABLE", "LABELS", "BASE PATH", "PROBLEMS"), [_row(model) for model in found]
    )


@models.command()
@click.argument("name")
@connection.reading
def show(name: str) -> None:
    """Show everything about the model NAME and its versions."""
    admin = connection.connect()
    (model,) = admin.models(name)
    versions = admin.versions(name)
    if connection.wants_json():
        output.tell_json({"model": model, "versions": versions})
        return
    output.tell_facts(_facts(model))
    for version in versions:
        message = f" ({version['code']}: {version['message']})" if version["message"] else ""
        output.tell_facts({f"version {version['version']}": f"{version['state']} {version['path']}{message}"})
    for problem in model["problems"]:
        output.tell_facts({"problem": problem})


@models.command()
@click.argument("id", required=False)
@connection.reading
def registered(id: str | None) -> None:
    """List the models that ModelMesh clients registered, or the one called ID."""
    found = connection.connect().registered_models(id)
    if connection.wants_json():
        output.tell_json({"registered_models": found})
        return
    output.tell_table(
        ("MODEL", "STATUS", "TYPE", "PATH", "INSTANCES", "LAST USED", "ERRORS"),
        [
            (
                item["id"],
                item["status"],
                item["type"],
                item["path"],
                output.joined(item["instances"]),
                output.moment(item["last_used_at"]),
                output.joined(item["errors"]),
            )
            for item in found
        ],
    )


@models.command("set-policy")
@click.argument("name")
@click.argument("policy", type=PolicyType())
@connection.changing
def set_policy(name: str, policy: Policy) -> None:
    """Serve what POLICY picks of the versions of model NAME.

    POLICY is latest, latest:N, all or specific:V,V,...
    """
    changed = connection.connect().set_policy(name, policy.to_json(), connection.reason())
    if connection.wants_json():
        output.tell_json({"changed": changed})
        return
    output.tell_change(f"Model {name} serves {policy.describe()}.", changed)


@models.command()
@click.argument("name")
@connection.changing
def unpin(name: str) -> None:
    """Let model NAME, which a rollback holds at versions, follow its policy again."""
    changed = connection.connect().unpin(name, connection.reason())
    if connection.wants_json():
        output.tell_json({"changed": changed})
        return
    output.tell_change(f"Model {name} follows its policy.", changed)


def _row(model: JsonObject) -> output.Row:
    return (
        model["name"],
        model["owner"],
        _rule(model),
        output.joined(model["available"]),
        _labels(model["labels"]),
        model["base_path"],
        output.joined(model["problems"]),
    )


def _facts(model: JsonObject) -> dict[str, str]:
    return {
        "model": model["name"],
        "owner": model["owner"],
        "base path": model["base_path"],
        "platform": model["platform"],
        "policy": _rule(model),
        "available": output.joined(model["available"]),
        "labels": _labels(model["labels"]),
    }


def _rule(model: JsonObject) -> str:
    """The policy, and the versions that a rollback holds instead."""
    pinned, policy = model.get("pinned"), _policy(model["policy"])
    return policy if pinned is None else f"{policy} (pinned to {output.joined(pinned)} by a rollback)"


def _policy(policy: JsonObject) -> str:
    """A later release may know policies that this one does not."""
    try:
        return from_json(policy).describe()
    except ValueError:
        return json.dumps(policy)


def _labels(labels: Mapping[str, int]) -> str:
    return output.joined([f"{label}={version}" for label, version in labels.items()])
