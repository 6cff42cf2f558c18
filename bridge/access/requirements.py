"""Which ports ask for which scopes, as the settings say."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.access.identity import Scope
from bridge.errors import InvalidArgument

PORTS = ("grpc", "rest", "modelmesh")
ALL = "all"

Requirements = Mapping[str, frozenset[Scope]]
"""Scopes by port."""


def parse(text: str) -> Requirements:
    """The scopes that `--require_access` asks for: PORT or PORT:SCOPE, comma-separated. Raises InvalidArgument."""
    required: dict[str, frozenset[Scope]] = dict.fromkeys(PORTS, frozenset())
    for item in filter(None, (part.strip() for part in text.split(","))):
        port, colon, scope = item.partition(":")
        if port not in (*PORTS, ALL):
            raise InvalidArgument(f"--require_access={text}: '{port}' is none of {', '.join(PORTS)} and {ALL}")
        if colon and scope not in list(Scope):
            raise InvalidArgument(f"--require_access={text}: '{scope}' is none of the scopes {', '.join(Scope)}")
        for name in PORTS if port == ALL else (port,):
            required[name] |= {Scope(scope)} if colon else frozenset(Scope)
    return required
