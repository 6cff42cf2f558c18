"""What bridges on one PostgreSQL tell each other at once: a word, a blank and one JSON document.

A notice is sent by the commit of the transaction that it tells of. Nothing is lost if one is not heard: whoever listens
looks at the tables again after each interruption, and now and then anyway.
"""

from __future__ import annotations

import json
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

CHANNEL = "triton_bridge"

PAYLOAD_LIMIT = 7900
"""Bytes that PostgreSQL takes in one notice."""

WANTED: Final = "wanted"
"""Something else is wanted; the content names the replica that changed it."""
ROUTES: Final = "routes"
"""The leader published a snapshot with this epoch."""
DRAINED: Final = "drained"
"""[router, epoch]: the router holds no request older than that."""
LEADER: Final = "leader"
"""The leadership was taken or given back."""
LOST: Final = "lost"
"""[triton_name, instance]: the process of that copy died."""
FAILURE: Final = "failure"
"""[triton_name, instance, reason]: a request met trouble on that copy."""
DEMAND: Final = "demand"
"""A request waits for this registered model."""
USED: Final = "used"
"""How often each registered model was used since the last such notice."""


def notify(connection: Connection, word: str, content: Any) -> None:
    """Tell every bridge that listens, this one too. SQLite has nobody to tell; what is too long is not told."""
    payload = f"{word} {json.dumps(content)}"
    if connection.dialect.name == "postgresql" and len(payload.encode()) <= PAYLOAD_LIMIT:
        connection.execute(sa.select(sa.func.pg_notify(CHANNEL, payload)))


def parse(payload: str) -> tuple[str, Any]:
    """The word and the content of a notice. Raises ValueError."""
    word, _, document = payload.partition(" ")
    return word, json.loads(document)
