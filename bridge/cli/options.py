"""Click options made from the table of settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import click

from bridge.settings import SETTINGS, Setting

F = TypeVar("F", bound=Callable[..., Any])

_TRUTHS = {"true": True, "false": False}


class Truth(click.ParamType[bool]):
    """`true` or `false`, as TF Serving spells a boolean flag's value."""

    name = "bool"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if isinstance(value, bool):
            return value
        if value not in _TRUTHS:
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return _TRUTHS[value]


def setting_options(names: Collection[str] | None = None) -> Callable[[F], F]:
    """Give a command these settings, or every one, as `--name=value` and `BRIDGE_NAME`; a bare boolean flag is true."""

    def decorate(function: F) -> F:
        for setting in reversed(SETTINGS):
            if names is None or setting.name in names:
                function = _option(setting)(function)
        return function

    return decorate


def _option(setting: Setting) -> Callable[[F], F]:
    common: dict[str, Any] = {"envvar": setting.variable, "help": _help(setting), "show_envvar": True}
    if setting.type is bool:
        return click.option(setting.flag, type=Truth(), is_flag=False, flag_value="true", default=None, **common)
    if setting.repeats:
        return click.option(setting.flag, multiple=True, default=None, **common)
    kind = click.Choice(setting.choices) if setting.choices else setting.type
    return click.option(setting.flag, type=kind, default=None, **common)


def _help(setting: Setting) -> str:
    if setting.repeats or setting.default == "":
        return setting.help
    default = str(setting.default).lower() if setting.type is bool else setting.default
    return f"{setting.help}  [default: {default}]"
