"""Anchors: where a history had come to, kept elsewhere, so that rewriting or cutting what was before shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import canonical
from bridge.registry.chain import is_genuine
from bridge.registry.journal import attest
from bridge.registry.tables import events, meta

DOMAIN = "anchor:"
"""What the mac of an anchor covers begins with this, so that it is no mac of anything else."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last event of a history at some time: its number, hash and time (microseconds UTC).

    `mac` is over all the rest, with the audit key; None without one.
    """

    deployment: str
    epoch: int
    seq: int
    hash: str
    at: int
    mac: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def signed(self, key: bytes | None) -> Anchor:
        return self if key is None else replace(self, mac=attest(key, self._signed_text()))

    def check(self, key: bytes | None) -> None:
        """Raises InvalidArgument for an anchor that somebody without the key made."""
        if key is not None and self.mac is not None and not is_genuine(key, self._signed_text(), self.mac):
            raise InvalidArgument("The anchor was not made with this audit key: its mac does not fit.")

    def _signed_text(self) -> str:
        return DOMAIN + canonical.dumps(replace(self, mac=None).to_json())


def read(value: Any) -> Anchor:
    """The anchor in a JSON object as `Anchor.to_json` makes it. Raises InvalidArgument."""
    if not isinstance(value, Mapping):
        raise InvalidArgument("An anchor is a JSON object.")
    kinds: dict[str, tuple[type, ...]] = {"deployment": (str,), "hash": (str,), "mac": (str, type(None))}
    names = [item.name for item in fields(Anchor)]
    for name in names:
        if type(value.get(name)) not in kinds.get(name, (int,)):
            raise InvalidArgument(f"The anchor has no right '{name}'; `bridge export anchor` makes one.")
    return Anchor(**{name: value[name] for name in names})


def loads(text: str | bytes) -> Anchor:
    """Raises InvalidArgument."""
    try:
        return read(canonical.loads(text if isinstance(text, str) else text.decode()))
    except ValueError as error:
        raise InvalidArgument("The anchor is not JSON; `bridge export anchor` makes one.") from error


def read_anchor(connection: Connection, key: bytes | None = None) -> Anchor:
    """Where the history is now. Raises FailedPrecondition while it has no event."""
    own = connection.execute(sa.select(meta.c.deployment_id, meta.c.epoch)).one_or_none()
    query = sa.select(events.c.seq, events.c.hash, events.c.at).order_by(events.c.seq.desc()).limit(1)
    last = connection.execute(query).one_or_none()
    if own is None or last is None:
        raise FailedPrecondition("The database has no history yet.")
    return Anchor(own.deployment_id, own.epoch, last.seq, last.hash, last.at).signed(key)
