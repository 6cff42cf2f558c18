"""Writes docs/settings.md and docs/reference.md from the code: python docs/generate.py [--check]

With --check nothing is written; a file that is not what the code says is named, with exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click

import model_repo_sync.cli
from bridge.access import methods
from bridge.access.denials import Denials
from bridge.access.identity import Scope
from bridge.cli.main import main as bridge
from bridge.clock import SystemClock
from bridge.console.admin import admin_app
from bridge.registry import events
from bridge.replicas.gauges import ReplicaCollector
from bridge.serving.routes import EMPTY
from bridge.settings import SETTINGS, Setting
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.state import StateCollector
from bridge.workers.gauges import WorkerGauges

DOCS = Path(__file__).parent
NOTICE = "<!-- Written by docs/generate.py from the code; `make docs` renews it. -->"


def main() -> int:
    pages = {DOCS / "settings.md": settings_page(), DOCS / "reference.md": reference_page()}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"docs/{path.name} is not what the code says: run make docs", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages[path])
    return 0


def settings_page() -> str:
    lines = [
        NOTICE,
        "",
        "# Settings",
        "",
        "Each setting is a flag of `bridge serve`, `--name=value`, and an environment variable; the flag wins. A",
        "boolean flag without a value means true. One that may repeat is one variable, its values separated by blanks.",
        "",
        "| flag | variable | default | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_setting_row(setting) for setting in SETTINGS), ""])


def reference_page() -> str:
    parts = [
        NOTICE,
        "",
        "# Reference",
        "",
        *_commands(),
        "",
        *_admin_api(),
        "",
        *_scopes(),
        "",
        *_metrics(),
        "",
        *_events(),
        "",
    ]
    return "\n".join(parts)


def _setting_row(setting: Setting) -> str:
    help_text = setting.help
    if setting.choices:
        help_text += f" ({', '.join(f'`{choice}`' for choice in setting.choices)})"
    return _row(f"`{setting.flag}`", f"`{setting.variable}`", _default(setting.default), help_text)


def _default(value: Any) -> str:
    if value == () or value == "":
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _commands() -> Iterator[str]:
    yield from ("## Commands", "", "`--help` tells the options of each.", "", "| command | does |", "|---|---|")
    for group in (bridge, model_repo_sync.cli.main):
        for name, command in commands(group):
            yield _row(f"`{name}`", command.get_short_help_str(200))


def commands(command: click.Command, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below `command` with its whole name. A group is left out: it is what its commands are."""
    name = f"{prefix} {command.name}".strip() if prefix else _program(command)
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for child in command.list_commands(context):
        found = command.get_command(context, child)
        assert found is not None
        yield from commands(found, name)


def _program(command: click.Command) -> str:
    return "model-repo-sync" if command is model_repo_sync.cli.main else "bridge"


def _admin_api() -> Iterator[str]:
    yield from (
        "## Admin API",
        "",
        "JSON on `--admin_port`; what is named by a query parameter may hold any character.",
        "",
    )
    yield from ("| path | methods, each with the scope that it needs where tokens are asked for |", "|---|---|")
    unused = Mock()
    for route in admin_app(*[unused] * 5, local_only=True).routes:
        path = getattr(route, "path", "")
        verbs = sorted(set(getattr(route, "methods", ())) - {"HEAD"})
        yield _row(
            f"`{path}`",
            ", ".join(f"{verb} ({_scope(methods.ADMIN.get(f'{verb} {path}', methods.UNLISTED))})" for verb in verbs),
        )


def _scopes() -> Iterator[str]:
    yield from (
        "## Scopes",
        "",
        "What calls of client ports need where `--require_access` asks for it; [security.md](security.md) tells more.",
        "",
    )
    yield from ("| port | scope | calls |", "|---|---|---|")
    for port, needs in (("gRPC, ModelMesh", methods.GRPC), ("REST", methods.REST)):
        for scope in (*Scope, None):
            calls = ", ".join(f"`{name}`" for name in needs if needs[name] == scope)
            if calls:
                yield _row(port, _scope(scope), calls)


def _scope(scope: Scope | None) -> str:
    return scope or "nothing"


def _metrics() -> Iterator[str]:
    yield from ("## Metrics", "", "On `/metrics` of the admin port, beside Prometheus' usual `process_` ones.", "")
    yield from ("| metric | type | meaning |", "|---|---|---|")
    for name, kind, meaning in metrics():
        yield _row(f"`{name}`", kind, meaning)


def metrics() -> list[tuple[str, str, str]]:
    """Name, type and help text of every metric, from the page of a server without models."""
    plane: Any = SimpleNamespace(
        publisher=SimpleNamespace(routes=EMPTY), fleet=SimpleNamespace(controllers={}), statuses=lambda name: {}
    )
    recorder: Any = SimpleNamespace(backlog=0)
    registry: Any = SimpleNamespace(events_written=0)
    denials = Denials(lambda event, actor: None, SystemClock())
    state = ReplicaCollector(StateCollector(plane, recorder, registry), lambda: False)
    workers: Any = SimpleNamespace(serving=0, replaced=0)
    lines = Metrics(state, denials.metric, WorkerGauges(workers)).page().decode().splitlines()
    helps = dict(line.removeprefix("# HELP ").split(" ", 1) for line in lines if line.startswith("# HELP "))
    kinds = dict(line.removeprefix("# TYPE ").split(" ", 1) for line in lines if line.startswith("# TYPE "))
    kept = (name for name in helps if not name.startswith("process_") and not name.endswith("_created"))
    return [(name, kinds[name], helps[name]) for name in sorted(kept)]


def _events() -> Iterator[str]:
    yield from ("## Events", "", "Actions in the table `events`; [database.md](database.md) tells of its columns.", "")
    yield from ("| action | carries | meaning |", "|---|---|---|")
    for event in sorted(event_types(events.Event), key=lambda event: event.action):
        carried = ", ".join(f"`{item.name}`" for item in fields(event))
        own = event.__doc__ or ""
        written = not own.startswith(f"{event.__name__}(")
        yield _row(f"`{event.action}`", carried, own.split("\n\n")[0] if written else "")


def event_types(base: type[events.Event]) -> Iterator[type[events.Event]]:
    """Every kind of event: the classes that have an action."""
    if "action" in vars(base):
        yield base
    for child in base.__subclasses__():
        yield from event_types(child)


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
