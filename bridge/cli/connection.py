"""Options by which a command finds what it talks to, the same before and after the name of a subcommand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from bridge.cli.admin import Admin
from bridge.cli.history_admin import DatabaseHistory, HistoryAdmin, HttpHistory
from bridge.cli.http_admin import HttpAdmin
from bridge.cli.integrity_admin import DatabaseIntegrity, HttpIntegrity, IntegrityAdmin
from bridge.cli.login import Login
from bridge.errors import FailedPrecondition
from bridge.settings import Settings
from bridge.state_dir import StateDir

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "bridge.cli."
"""Keys of the values in click's meta, which a command shares with its group."""


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """The innermost option on the command line counts; the environment only where none is given."""
    key = f"{PREFIX}{param.name}"
    if value is not None and (ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE):
        ctx.meta[key] = value
    elif value is not None:
        ctx.meta.setdefault(key, value)


def _option(name: str, help_text: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(f"--{name}", default=None, expose_value=False, callback=_keep, help=help_text, **attributes)


def _setting(name: str, help_text: str) -> Callable[[F], F]:
    return _option(name, help_text, envvar=f"BRIDGE_{name.upper()}", show_envvar=True)


_JSON = _option("json", "Print JSON as the admin API answers it.", is_flag=True)
_REASON = _option("reason", "Why, for the history.")
_CONNECTION: Sequence[Callable[[Any], Any]] = (
    _setting("admin_url", "Admin API to talk to, http[s]://HOST:PORT; else the server of the state directory."),
    _setting("admin_token_file", "File with the bearer token for the admin API, where it asks for one."),
    _setting("admin_ca_file", "PEM file with the roots of an https admin API; else the system's."),
    _setting("admin_cert_file", "PEM file with the client certificate for the admin API."),
    _setting("admin_key_file", "PEM file with the key of that certificate."),
    _setting("state_dir", f"State directory of the server.  [default: {Settings().state_dir}]"),
    _setting("database_url", "Database to open where no server lives; else that of the state directory."),
    _setting("audit_key_file", "Key of the history of that database, where it has one."),
)


def asking(function: F) -> F:
    """Give a command the options to find the server."""
    return _decorated(function, _CONNECTION)


def reading(function: F) -> F:
    """Give a command the options to find the server, and --json."""
    return _decorated(function, (_JSON, *_CONNECTION))


def changing(function: F) -> F:
    """Give a command the options to find the server, --json and --reason."""
    return _decorated(function, (_REASON, _JSON, *_CONNECTION))


def connect() -> Admin:
    """The running server that the options of this command name, or the database where none lives.

    Raises BridgeError.
    """
    url = _server_url()
    return HttpAdmin(url, _login()) if url else _database()


def integrity(*, here: bool = False) -> IntegrityAdmin:
    """What is asked about the history: the database, if an option names it or its key or it has to be `here`; else the
    running server, or the database where none lives.

    An auditor verifies with a key and on a machine of his own, and trusts no server to do so. Raises BridgeError.
    """
    here = here or bool(_value("database_url") or _value("audit_key_file"))
    url = _value("admin_url") or ("" if here else _server_url())
    return HttpIntegrity(url, _login()) if url else DatabaseIntegrity(*_located())


def history() -> HistoryAdmin:
    """What the history is asked: the running server, or the database where none lives. Raises BridgeError."""
    url = _server_url()
    return HttpHistory(url, _login()) if url else DatabaseHistory(*_located())


def wants_json() -> bool:
    return bool(_value("json"))


def reason() -> str:
    return str(_value("reason") or "")


def _server_url() -> str:
    """The admin API that the options name, or that of the state directory; empty where no server lives.

    Raises FailedPrecondition for a server without an admin port.
    """
    if url := _value("admin_url"):
        return str(url)
    state = StateDir(_state_dir())
    server = state.read_server()
    if server is not None and "admin" in server.ports:
        scheme = "https" if "admin" in server.secure else "http"
        return f"{scheme}://127.0.0.1:{server.ports['admin']}"
    if state.is_live():
        raise FailedPrecondition(
            f"The server of state directory '{state.path}' has no admin port open: it starts just now, or was started "
            "with --admin_port=0."
        )
    return ""


def _state_dir() -> str:
    return str(_value("state_dir") or Settings().state_dir)


def _login() -> Login:
    names = ("admin_token_file", "admin_ca_file", "admin_cert_file", "admin_key_file")
    return Login(*(_value(name) or "" for name in names))


def _database() -> Admin:
    # The registry is imported only where no server lives: that takes longer than asking one.
    from bridge.cli.database_admin import DatabaseAdmin
    from bridge.cli.db import Location

    return DatabaseAdmin(Location(_value("database_url") or "", _state_dir()), _key())


def _located() -> tuple[str, bytes | None]:
    """URL and audit key of the database. Raises FailedPrecondition if it is not there."""
    from bridge.cli.db import Location

    location = Location(_value("database_url") or "", _state_dir())
    location.require()
    return location.url, _key()


def _key() -> bytes | None:
    from bridge.cli.db import read_key

    key_file = _value("audit_key_file")
    return read_key(Path(key_file) if key_file else None)


def _value(name: str) -> Any:
    return click.get_current_context().meta.get(f"{PREFIX}{name}")


def _decorated(function: F, options: Sequence[Callable[[Any], Any]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function
