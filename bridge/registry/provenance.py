"""Where the contents of versions came from, and whether other content lies there now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical
from bridge.registry.records import JsonObject
from bridge.registry.rollback_events import ContentChanged, ProvenanceRecorded
from bridge.registry.rollback_records import Provenance
from bridge.registry.tables import provenance
from bridge.registry.transaction import Transaction

_AS_JSON = ("tensorflow", "signatures", "files")


def read_provenance(connection: Connection, model: str, version: int | None = None) -> tuple[Provenance, ...]:
    """The contents that a model's versions had, by version, the one seen last first."""
    query = sa.select(provenance).where(provenance.c.model == canonical.clean(model))
    if version is not None:
        query = query.where(provenance.c.version == version)
    rows = connection.execute(query.order_by(provenance.c.version, provenance.c.last_seen_at.desc())).mappings()
    return tuple(_provenance(row) for row in rows)


def known_content(tx: Transaction, model: str, version: int, identity: str) -> tuple[str, int]:
    """Fingerprint and size of the content with this identity; empty and 0 while nobody read it."""
    row = tx.get(provenance, model=model, version=version, identity=identity)
    return (row["fingerprint"], row["size"]) if row is not None else ("", 0)


def record_provenance(tx: Transaction, seen: Provenance) -> bool:
    """Keep what a version was loaded from; whether that is news."""
    known = _known(tx, seen.model, seen.version)
    last = known[0] if known else None
    if last is not None and _plain(last) == _plain(seen):
        return False
    _write(tx, seen, known)
    if last is None or last.content() != seen.content():
        tx.emit(ProvenanceRecorded(seen.model, seen.version, last.content() if last else None, seen.content()))
    if last is not None and (last.found or last.fingerprint) != seen.fingerprint:
        tx.emit(ContentChanged(seen.model, seen.version, _lying(last), seen.content()))
    return True


def record_found(tx: Transaction, model: str, version: int, fingerprint: str, size: int) -> bool:
    """Keep that content with this digest lies where the version was loaded from; whether that is news."""
    known = _known(tx, model, version)
    if not known or (known[0].found or known[0].fingerprint) == fingerprint:
        return False
    last = known[0]
    found = None if fingerprint == last.fingerprint else fingerprint
    key = {"model": model, "version": version, "identity": last.identity}
    tx.update(provenance, key, found=found)
    after = last.content() if found is None else {"path": last.path, "fingerprint": fingerprint, "size": size}
    tx.emit(ContentChanged(model, version, _lying(last), after))
    return True


def _lying(item: Provenance) -> JsonObject:
    """What lies at a content's path, as far as that is known."""
    return item.content() if item.found is None else {"path": item.path, "fingerprint": item.found}


def _known(tx: Transaction, model: str, version: int) -> list[Provenance]:
    rows = tx.find(provenance, model=model, version=version)
    return sorted((_provenance(row) for row in rows), key=lambda item: item.last_seen_at, reverse=True)


def _write(tx: Transaction, seen: Provenance, known: list[Provenance]) -> None:
    values: dict[str, Any] = {
        "fingerprint": seen.fingerprint,
        "path": seen.path,
        "size": seen.size,
        "tensorflow": canonical.dumps(seen.tensorflow),
        "signatures": canonical.dumps(seen.signatures),
        "files": canonical.dumps(seen.files),
        "found": None,
        # Two contents of one version are told apart by their order, which one clock reading might not give.
        "last_seen_at": max([tx.now, *(item.last_seen_at + 1 for item in known)]),
    }
    key = {"model": seen.model, "version": seen.version, "identity": seen.identity}
    if any(item.identity == seen.identity for item in known):
        tx.update(provenance, key, **values)
        return
    first = min((item.first_seen_at for item in known if item.fingerprint == seen.fingerprint), default=tx.now)
    tx.insert(provenance, **key, **values, first_seen_at=first)


def _plain(item: Provenance) -> Provenance:
    """Without what the registry sets, in the form in which the database has it."""
    path = canonical.clean(item.path)
    return replace(item, path=path, first_seen_at=0, last_seen_at=0)


def _provenance(row: RowMapping) -> Provenance:
    values = dict(row) | {name: canonical.loads(row[name]) for name in _AS_JSON}
    values["signatures"] = tuple(values["signatures"])
    values["files"] = tuple(tuple(file) for file in values["files"])
    return Provenance(**values)
