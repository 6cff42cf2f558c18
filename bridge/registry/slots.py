"""Which state of its subject an event tells: the key by which the history finds the last word on it.

Each event falls into one slot of its subject, which the database works out itself (column `events.slot`). The state of
a subject at any time is the last event before it in each slot, found by index whatever the age of that time is.
"""

from __future__ import annotations

WANTED = "wanted"
"""What is wanted of a model, a label or a vmodel; of an instance its addresses, of the server its configuration."""

REGISTERED = "registered"
"""A model that ModelMesh clients registered; one of TF Serving's configuration may have the same name."""

PIN = "pin"
"""Versions that a rollback holds."""

LIVE = "live"
"""What a selector resolved to."""

STATE = "state"
"""What was seen of an instance."""

PROCESS = "process"
"""Servers that start and end."""

NOTE = "note"
"""Events that are no state: a later one does not replace an earlier one."""

VERSION = "version "
"""With its number: what was seen of a version."""

ACTIONS = {
    WANTED: (
        "config applied",
        "model added",
        "model changed",
        "model removed",
        "policy set",
        "label set",
        "label removed",
        "vmodel created",
        "vmodel transition started",
        "vmodel transition failed",
        "vmodel transition resumed",
        "vmodel promoted",
        "vmodel rolled back",
        "vmodel deleted",
        "instance registered",
    ),
    REGISTERED: ("model registered", "model unregistered", "model auto-deleted"),
    PIN: ("rollback pinned", "rollback unpinned"),
    LIVE: ("live moved",),
    STATE: ("instance up", "instance lost", "instance back", "instance unwatched"),
    PROCESS: ("server started", "server stopped", "server lost"),
}
"""Actions by slot; every other one but `version observed` is a note."""

ENDS = frozenset({"model auto-deleted"})
"""Actions after which nothing is left, although they say something after it."""


def expression(version: str) -> str:
    """The slot of an event in SQL, where `version` is the text of its version."""
    cases = [
        f"when action in ({', '.join(f'{chr(39)}{action}{chr(39)}' for action in actions)}) then '{slot}'"
        for slot, actions in ACTIONS.items()
    ]
    versions = f"when action = 'version observed' then coalesce('{VERSION}' || {version}, '{NOTE}')"
    return f"case {' '.join(cases)} {versions} else '{NOTE}' end"


def version_slot(version: int) -> str:
    return f"{VERSION}{version}"


def version_of(slot: str) -> int:
    """The number in the slot of a version."""
    return int(slot[len(VERSION) :])
