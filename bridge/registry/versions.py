"""Observed states of versions."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import NotFound
from bridge.registry import canonical, live
from bridge.registry.events import VersionObserved
from bridge.registry.provenance import known_content
from bridge.registry.records import Version
from bridge.registry.rollback_records import Provenance
from bridge.registry.tables import model_versions, models
from bridge.registry.transaction import Transaction
from bridge.serving.routes import VersionState


def read_versions(connection: Connection, model: str | None = None) -> tuple[Version, ...]:
    """Versions of one model or of all, by model, highest version first."""
    query = sa.select(model_versions)
    if model is not None:
        query = query.where(model_versions.c.model == canonical.clean(model))
    versions = (Version(**row) for row in connection.execute(query).mappings())
    return tuple(sorted(versions, key=lambda item: (item.model, -item.version)))


def record_version(tx: Transaction, observed: VersionObserved, identity: str = "") -> bool:
    """Keep what was observed. An empty path or fingerprint and a size of 0 mean: as known before.

    With an `identity` of the files fingerprint and size are those that are known of it, none where nothing is.

    Raises NotFound for a model that never was in the registry; a removed one still has versions to unload.
    """
    if tx.get(models, name=observed.model) is None:
        raise NotFound(f"Model '{canonical.cut(observed.model)}' is not known.")
    row = tx.get(model_versions, model=observed.model, version=observed.version)
    previous = _observed(row) if row is not None else None
    known = _completed(observed, previous)
    if identity:
        fingerprint, size = known_content(tx, observed.model, observed.version, identity)
        known = replace(known, fingerprint=fingerprint, size=size)
    if previous is not None and known.after() == previous.after():
        return False
    _write(tx, known, new=previous is None)
    tx.emit(known)
    if previous is not None and (known.path, known.fingerprint) != (previous.path, previous.fingerprint):
        live.refresh(tx, known.model, known.version)
    return True


def tell_content(tx: Transaction, seen: Provenance) -> None:
    """The content of a version that serves is known now: say so of it, and with that of what resolves to it."""
    row = tx.get(model_versions, model=seen.model, version=seen.version)
    if row is None or row["state"] != VersionState.AVAILABLE or row["fingerprint"] == seen.fingerprint:
        return
    record_version(tx, replace(_observed(row), fingerprint=seen.fingerprint, size=seen.size))


def forget_states(tx: Transaction) -> None:
    """Nothing that was not END is known any more: the process that observed it ended."""
    query = sa.select(model_versions.c.model).where(
        model_versions.c.state.not_in((VersionState.UNKNOWN, VersionState.END))
    )
    for name in sorted(set(tx.connection.execute(query).scalars())):
        tx.get(models, name=name)
        for row in tx.find(model_versions, model=name):
            if row["state"] not in (VersionState.UNKNOWN, VersionState.END):
                record_version(tx, _unknown(_observed(row)))


def _observed(row: RowMapping, previous: VersionObserved | None = None) -> VersionObserved:
    return VersionObserved(
        model=row["model"],
        version=row["version"],
        state=row["state"],
        code=row["code"],
        message=row["message"],
        path=row["path"],
        fingerprint=row["fingerprint"],
        size=row["size"],
        previous=previous,
    )


def _unknown(last: VersionObserved) -> VersionObserved:
    return VersionObserved(last.model, last.version, VersionState.UNKNOWN, 0, "", "", "", 0)


def _completed(observed: VersionObserved, previous: VersionObserved | None) -> VersionObserved:
    return VersionObserved(
        model=observed.model,
        version=observed.version,
        state=int(observed.state),
        code=int(observed.code),
        message=canonical.clean(observed.message),
        path=canonical.clean(observed.path) or (previous.path if previous else ""),
        fingerprint=observed.fingerprint or (previous.fingerprint if previous else ""),
        size=observed.size or (previous.size if previous else 0),
        previous=previous,
    )


def _write(tx: Transaction, known: VersionObserved, *, new: bool) -> None:
    values = known.properties()
    del values["previous"]
    key = {"model": values.pop("model"), "version": values.pop("version")}
    if new:
        tx.insert(model_versions, **key, **values, first_seen_at=tx.now, updated_at=tx.now)
    else:
        tx.update(model_versions, key, **values, updated_at=tx.now)
