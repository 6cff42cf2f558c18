"""What the events say the rows beside them are, and where those differ.

Events tell of everything that is wanted and of what was seen; what changes without an event (times, sizes of copies,
the state of a copy that does not serve) is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from bridge.registry import canonical, slots, tables
from bridge.registry.chain import EventRow
from bridge.registry.events import (
    ConfigApplied,
    ConfigRejected,
    CopyLoaded,
    CopyLost,
    InstanceBack,
    InstanceLost,
    InstanceRegistered,
    InstanceUnwatched,
    InstanceUp,
    LabelRemoved,
    LabelSet,
    ModelAdded,
    ModelChanged,
    ModelRemoved,
    PolicySet,
    SourceCleared,
    SourceProblem,
    VersionObserved,
    label_subject,
)
from bridge.registry.integrity_events import HistoryImported, HistoryRestored
from bridge.registry.modelmesh_events import (
    LoadFailed,
    LoadFailureForgotten,
    ModelAutoDeleted,
    ModelRegistered,
    ModelUnregistered,
    VModelCreated,
    VModelDeleted,
    VModelPromoted,
    VModelRolledBack,
    VModelTransitionFailed,
    VModelTransitionResumed,
    VModelTransitionStarted,
)
from bridge.registry.records import InstanceState, JsonObject, Outcome
from bridge.registry.rollback_events import RollbackPinned, RollbackUnpinned
from bridge.serving.routes import VersionState

Key = tuple[Any, ...]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a row that is not what the events say.

    Without `column` it is the whole row: `recorded` is None for a row that no event tells of, `found` for one that is
    missing.
    """

    table: str
    key: str
    column: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        if self.column:
            return f"{self.table} {self.key}: {self.column} is {self.found!r}, the events say {self.recorded!r}."
        if self.found is None:
            return f"{self.table} {self.key}: the row is missing, the events tell of it."
        return f"{self.table} {self.key}: there is a row, but no event tells of it."


class Expectations:
    """Rows as the events so far say they are. In memory is what there is now, not what there was."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Key, Row]] = defaultdict(dict)
        self.epoch = 1

    def follow(self, event: EventRow) -> None:
        """Go on by one event."""
        self.rows["subjects"].setdefault((event["subject"], event["slot"]), {})
        if event["slot"] == slots.LIVE:
            moved = {"state": event["after"], "since": event["at"], "seq": event["seq"]}
            self.rows["live"][(event["subject"],)] = moved
        act = _ACTS.get(event["action"])
        if act is not None:
            act(self, event)

    def differences(self, connection: Connection, *, sealed: bool) -> Iterator[Difference]:
        """Where the rows of the database differ.

        With `sealed`, old revisions of the configuration have lost their events.
        """
        for name, read in _READERS.items():
            expected = dict(self.rows[name])
            for key, found in read(connection):
                recorded = expected.pop(key, None)
                if recorded is not None:
                    yield from _compare(name, key, recorded, found)
                elif not _may_be_untold(name, found, sealed):
                    yield Difference(name, _text(key), "", None, found)
            for key, recorded in expected.items():
                yield Difference(name, _text(key), "", recorded, None)


def _compare(table: str, key: Key, recorded: Row, found: Row) -> Iterator[Difference]:
    for column, value in recorded.items():
        if found[column] != value:
            yield Difference(table, _text(key), column, value, found[column])


def _may_be_untold(table: str, found: Row, sealed: bool) -> bool:
    """A model that was only tried out has a row without any event."""
    return (table == "models" and not found["present"]) or (table == "config_revisions" and sealed)


def _text(key: Key) -> str:
    return "/".join(str(part) for part in key)


def _after(event: EventRow) -> Any:
    return {} if event["after"] is None else canonical.loads(event["after"])


def _before(event: EventRow) -> Any:
    return {} if event["before"] is None else canonical.loads(event["before"])


def _name(event: EventRow) -> str:
    """What follows the kind in the subject."""
    return str(event["subject"]).partition(":")[2]


def _want(rows: Expectations, name: str, before: JsonObject, wanted: JsonObject | None) -> None:
    """The model is wanted so from now on, None for not any more."""
    labels = rows.rows["version_labels"]
    for label in before.get("labels", ()):
        labels.pop((label_subject(name, label),), None)
    if wanted is None:
        rows.rows["models"].setdefault((name,), {})["present"] = False
        return
    rows.rows["models"][(name,)] = {
        "base_path": wanted["base_path"],
        "platform": wanted["platform"],
        "policy": canonical.dumps(wanted["policy"]),
        "logging": canonical.dumps(wanted.get("logging", {})),
        "present": True,
    }
    for label, version in wanted["labels"].items():
        labels[(label_subject(name, label),)] = {"version": version}


def _model_wanted(rows: Expectations, event: EventRow) -> None:
    _want(rows, _name(event), _before(event), _after(event) or None)


def _config_applied(rows: Expectations, event: EventRow) -> None:
    after, before = _after(event), _before(event)["models"]
    for name in before.keys() - after["models"].keys():
        _want(rows, name, before[name], None)
    for name, wanted in after["models"].items():
        _want(rows, name, before.get(name, {}), wanted)
    for revision in rows.rows["config_revisions"].values():
        revision["current"] = False
    _revision(rows, after, Outcome.APPLIED)


def _config_rejected(rows: Expectations, event: EventRow) -> None:
    _revision(rows, _after(event), Outcome.REJECTED)


def _revision(rows: Expectations, offer: JsonObject, outcome: Outcome) -> None:
    rows.rows["config_revisions"][(offer["revision"],)] = {
        "origin": offer["origin"],
        "content_hash": offer["content_hash"],
        "outcome": outcome.value,
        "current": outcome is Outcome.APPLIED,
    }


def _policy_set(rows: Expectations, event: EventRow) -> None:
    policy = canonical.dumps(_after(event)["policy"])
    rows.rows["models"].setdefault((_name(event),), {})["policy"] = policy


def _label_set(rows: Expectations, event: EventRow) -> None:
    rows.rows["version_labels"][(event["subject"],)] = {"version": _after(event)["version"]}


def _label_removed(rows: Expectations, event: EventRow) -> None:
    rows.rows["version_labels"].pop((event["subject"],), None)


def _version_observed(rows: Expectations, event: EventRow) -> None:
    after = _after(event)
    values = {name: after[name] for name in ("code", "message", "path", "fingerprint", "size")}
    rows.rows["model_versions"][(_name(event), after["version"])] = {"state": VersionState[after["state"]], **values}


def _copy_loaded(rows: Expectations, event: EventRow) -> None:
    copy = _after(event)
    key = (copy["instance"], copy["triton_name"])
    rows.rows["copies"][key] = {"model": copy["model"], "version": copy["version"]}


def _copy_lost(rows: Expectations, event: EventRow) -> None:
    copy = _before(event)
    rows.rows["copies"].pop((copy["instance"], copy["triton_name"]), None)


def _instance_registered(rows: Expectations, event: EventRow) -> None:
    initial = {"state": InstanceState.UNKNOWN.value}
    rows.rows["instances"].setdefault((_name(event),), initial).update(_after(event))


def _instance_observed(rows: Expectations, event: EventRow) -> None:
    after = _after(event)
    rows.rows["instances"].setdefault((_name(event),), {}).update(state=after["state"], reason=after["cause"])


def _source_problem(rows: Expectations, event: EventRow) -> None:
    after = _after(event)
    key = (canonical.cut(event["subject"], 1200), canonical.cut(after["path"]))
    rows.rows["problems"][key] = {"sentence": after["problem"]}


def _source_cleared(rows: Expectations, event: EventRow) -> None:
    key = (canonical.cut(event["subject"], 1200), canonical.cut(_before(event)["path"]))
    rows.rows["problems"].pop(key, None)


def _model_registered(rows: Expectations, event: EventRow) -> None:
    rows.rows["registered_models"][(_name(event),)] = dict(_after(event))


def _model_unregistered(rows: Expectations, event: EventRow) -> None:
    id = _name(event)
    rows.rows["registered_models"].pop((id,), None)
    failures = rows.rows["load_failures"]
    for key in [key for key in failures if key[0] == id]:
        del failures[key]


def _load_failed(rows: Expectations, event: EventRow) -> None:
    failure = _after(event)
    key = (_name(event), failure["instance"])
    rows.rows["load_failures"][key] = {"code": failure["code"], "message": failure["message"]}


def _load_failure_forgotten(rows: Expectations, event: EventRow) -> None:
    rows.rows["load_failures"].pop((_name(event), _before(event)["instance"]), None)


def _vmodel(rows: Expectations, event: EventRow) -> None:
    after = _after(event)
    if not after:
        rows.rows["vmodels"].pop((_name(event),), None)
        return
    values = {name: after[name] for name in ("active", "target", "target_failed")}
    rows.rows["vmodels"][(_name(event),)] = {"owner": after.get("owner", ""), **values}


def _pinned(rows: Expectations, event: EventRow) -> None:
    contents = canonical.dumps(_after(event)["versions"])
    rows.rows["rollback_pins"][(_name(event),)] = {"contents": contents}


def _unpinned(rows: Expectations, event: EventRow) -> None:
    rows.rows["rollback_pins"].pop((_name(event),), None)


def _epoch_begun(rows: Expectations, event: EventRow) -> None:
    rows.epoch = _after(event)["epoch"]
    rows.rows["meta"][()] = {"epoch": rows.epoch}


def _imported(rows: Expectations, event: EventRow) -> None:
    """The rows were not imported with the events, but for those that the database derives by itself."""
    for name in rows.rows.keys() - {"subjects", "live"}:
        rows.rows[name].clear()
    _epoch_begun(rows, event)


_ACTS: dict[str, Callable[[Expectations, EventRow], None]] = {
    ConfigApplied.action: _config_applied,
    ConfigRejected.action: _config_rejected,
    ModelAdded.action: _model_wanted,
    ModelChanged.action: _model_wanted,
    ModelRemoved.action: _model_wanted,
    PolicySet.action: _policy_set,
    LabelSet.action: _label_set,
    LabelRemoved.action: _label_removed,
    VersionObserved.action: _version_observed,
    CopyLoaded.action: _copy_loaded,
    CopyLost.action: _copy_lost,
    InstanceRegistered.action: _instance_registered,
    InstanceUp.action: _instance_observed,
    InstanceLost.action: _instance_observed,
    InstanceBack.action: _instance_observed,
    InstanceUnwatched.action: _instance_observed,
    SourceProblem.action: _source_problem,
    SourceCleared.action: _source_cleared,
    ModelRegistered.action: _model_registered,
    ModelUnregistered.action: _model_unregistered,
    ModelAutoDeleted.action: _model_unregistered,
    LoadFailed.action: _load_failed,
    LoadFailureForgotten.action: _load_failure_forgotten,
    VModelCreated.action: _vmodel,
    VModelTransitionStarted.action: _vmodel,
    VModelTransitionFailed.action: _vmodel,
    VModelTransitionResumed.action: _vmodel,
    VModelPromoted.action: _vmodel,
    VModelRolledBack.action: _vmodel,
    VModelDeleted.action: _vmodel,
    RollbackPinned.action: _pinned,
    RollbackUnpinned.action: _unpinned,
    HistoryRestored.action: _epoch_begun,
    HistoryImported.action: _imported,
}

Reader = Callable[[Connection], Iterator[tuple[Key, Row]]]


def _by_columns(table: sa.Table, *key: str, where: sa.ColumnElement[bool] | None = None) -> Reader:
    query = sa.select(table) if where is None else sa.select(table).where(where)

    def read(connection: Connection) -> Iterator[tuple[Key, Row]]:
        for row in connection.execute(query).mappings():
            yield tuple(row[name] for name in key), dict(row)

    return read


def _labels(connection: Connection) -> Iterator[tuple[Key, Row]]:
    for row in connection.execute(sa.select(tables.version_labels)).mappings():
        yield (label_subject(row["model"], row["label"]),), dict(row)


def _epochs(connection: Connection) -> Iterator[tuple[Key, Row]]:
    """A history that has one epoch only has no event that says so."""
    row: RowMapping | Mapping[str, Any]
    for row in connection.execute(sa.select(tables.meta)).mappings():
        if row["epoch"] != 1:
            yield (), dict(row)


_READERS: dict[str, Reader] = {
    "meta": _epochs,
    "models": _by_columns(tables.models, "name"),
    "version_labels": _labels,
    "model_versions": _by_columns(tables.model_versions, "model", "version"),
    "registered_models": _by_columns(tables.registered_models, "id"),
    "load_failures": _by_columns(tables.load_failures, "model", "instance"),
    "vmodels": _by_columns(tables.vmodels, "id"),
    "instances": _by_columns(tables.instances, "name"),
    "copies": _by_columns(
        tables.copies, "instance", "triton_name", where=tables.copies.c.state == int(VersionState.AVAILABLE)
    ),
    "problems": _by_columns(tables.problems, "subject", "path"),
    "rollback_pins": _by_columns(tables.rollback_pins, "model"),
    "config_revisions": _by_columns(tables.config_revisions, "revision"),
    "subjects": _by_columns(tables.subjects, "subject", "slot"),
    "live": _by_columns(tables.live, "selector"),
}
