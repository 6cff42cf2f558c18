"""Configuration revisions: what was offered, what was applied, what was rejected and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.errors import InvalidArgument
from bridge.registry import canonical
from bridge.registry.database import CONFIG_LOCK
from bridge.registry.events import ConfigApplied, ConfigRejected
from bridge.registry.models import (
    check_owner,
    check_spec,
    erase_model,
    find_model,
    lift_pin,
    owned_models,
    tell_change,
    write_model,
)
from bridge.registry.records import AppliedConfig, ConfigRevision, JsonObject, Model, ModelSpec, Outcome, Owner
from bridge.registry.tables import config_revisions
from bridge.registry.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Offer:
    """A configuration that wants to be applied.

    `polled` says that it is compared by hash with the last applied revision of its origin: a file or flags that did
    not change must not undo what was changed since. A command is not polled. `once` refuses a hash that an older
    revision of that origin had: another bridge on the same database is ahead.
    """

    origin: str
    content_hash: str
    text: str
    models: Sequence[ModelSpec]
    polled: bool
    once: bool


def apply_config(tx: Transaction, offer: Offer) -> AppliedConfig:
    """Replace the models that the configuration owns by those of `offer`, and tell of the whole and of each change.

    Raises InvalidArgument for a configuration that cannot be kept, AlreadyExists if it names somebody else's model.
    """
    tx.lock(CONFIG_LOCK)
    applied = _applied(tx, offer.origin)
    last = applied[-1]["revision"] if applied else None
    refusal = _refusal(offer, [row["content_hash"] for row in applied])
    if refusal:
        return AppliedConfig(False, refusal, last)
    return _replace(tx, offer, last)


def reject_config(tx: Transaction, origin: str, content_hash: str, text: str, error: str) -> bool:
    """Record a configuration that cannot be applied; False if it was the last thing heard of that origin."""
    tx.lock(CONFIG_LOCK)
    rows = tx.find(config_revisions, origin=origin)
    if rows and _same_rejection(rows[-1], content_hash, error):
        return False
    revision = _record(tx, origin, content_hash, text, Outcome.REJECTED, error)
    tx.emit(ConfigRejected(origin, content_hash, revision, error))
    return True


def read_current(connection: Connection) -> ConfigRevision | None:
    """The revision that holds now."""
    row = connection.execute(sa.select(config_revisions).where(config_revisions.c.current)).mappings().one_or_none()
    return _revision(row) if row else None


def read_revisions(connection: Connection) -> tuple[ConfigRevision, ...]:
    """All revisions, oldest first."""
    query = sa.select(config_revisions).order_by(config_revisions.c.revision)
    return tuple(_revision(row) for row in connection.execute(query).mappings())


def _refusal(offer: Offer, hashes: Sequence[str]) -> str:
    if not offer.polled or not hashes:
        return ""
    if hashes[-1] == offer.content_hash:
        return "unchanged"
    return "superseded" if offer.once and offer.content_hash in hashes else ""


def _replace(tx: Transaction, offer: Offer, last: int | None) -> AppliedConfig:
    before = owned_models(tx, Owner.CONFIG)
    for name in _brought_back(tx, before.values(), offer, {spec.name for spec in offer.models}):
        del before[name]
    known = _check(tx, offer.models)
    wanted_before = {name: model.wanted() for name, model in before.items()}
    wanted_after = {spec.name: spec.wanted() for spec in offer.models}
    if not offer.polled and wanted_before == wanted_after and tx.find(config_revisions, current=True):
        return AppliedConfig(False, "unchanged", last)
    _lift_pins(tx, before.values(), wanted_after)
    for name in wanted_before.keys() - wanted_after.keys():
        erase_model(tx, name)
    for spec in sorted(offer.models, key=lambda item: item.name):
        write_model(tx, spec, Owner.CONFIG, new=spec.name not in known)
    for name in sorted(wanted_before.keys() | wanted_after.keys()):
        tell_change(tx, name, wanted_before.get(name), wanted_after.get(name))
    revision = _record(tx, offer.origin, offer.content_hash, offer.text, Outcome.APPLIED)
    tx.emit(ConfigApplied(offer.origin, offer.content_hash, revision, wanted_before, wanted_after))
    return AppliedConfig(True, "", revision)


def _brought_back(tx: Transaction, models: Iterable[Model], offer: Offer, entries: Container[str]) -> set[str]:
    """Models that a rollback brought back and this configuration does not list: they stay until another one comes."""
    current = [row["content_hash"] for row in tx.find(config_revisions, current=True)]
    if current != [offer.content_hash]:
        return set()
    return {item.name for item in models if item.name not in entries and item.pin and item.pin.entry is None}


def _lift_pins(tx: Transaction, models: Iterable[Model], entries: Mapping[str, JsonObject]) -> None:
    """Lift the rollback pins of models whose entries differ from those at the time of the rollback."""
    for model in models:
        if model.pin is not None and not _same(entries.get(model.name), model.pin.entry):
            lift_pin(tx, model.name)


def _same(entry: JsonObject | None, other: JsonObject | None) -> bool:
    return canonical.dumps(entry) == canonical.dumps(other)


def _check(tx: Transaction, specs: Sequence[ModelSpec]) -> set[str]:
    """The names that have a row already, present or removed."""
    twice = [name for name, count in Counter(spec.name for spec in specs).items() if count > 1]
    if twice:
        raise InvalidArgument(f"Model '{twice[0]}' is configured more than once.")
    known = set()
    for spec in sorted(specs, key=lambda item: item.name):
        check_spec(spec)
        model = find_model(tx, spec.name)
        if model is not None:
            known.add(spec.name)
            if model.present:
                check_owner(model, Owner.CONFIG)
    return known


def _applied(tx: Transaction, origin: str) -> Sequence[RowMapping]:
    return tx.find(config_revisions, origin=origin, outcome=Outcome.APPLIED.value)


def _same_rejection(row: RowMapping, content_hash: str, error: str) -> bool:
    return (row["outcome"], row["content_hash"], row["error"]) == (Outcome.REJECTED.value, content_hash, error)


def _record(tx: Transaction, origin: str, content_hash: str, text: str, outcome: Outcome, error: str = "") -> int:
    newest = tx.connection.execute(sa.select(sa.func.max(config_revisions.c.revision))).scalar_one()
    revision = (newest or 0) + 1
    current = outcome is Outcome.APPLIED
    if current:
        tx.update(config_revisions, {"current": True}, current=False)
    tx.insert(
        config_revisions,
        revision=revision,
        origin=origin,
        content_hash=content_hash,
        text=text,
        outcome=outcome.value,
        error=error,
        at=tx.now,
        current=current,
    )
    return revision


def _revision(row: RowMapping) -> ConfigRevision:
    return ConfigRevision(**{**row, "outcome": Outcome(row["outcome"])})
