"""What models and labels were at an earlier event, and which event their last change came after.

Everything here asks the registry and blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry.events import LabelRemoved, LabelSet, ModelRemoved, label_subject, model_subject
from bridge.registry.history_records import HistoryQuery, SubjectState
from bridge.registry.live_events import LiveMoved
from bridge.registry.records import EventRecord, JsonObject, ModelSpec
from bridge.registry.registry import Registry
from bridge.registry.rollback_events import ProvenanceRecorded
from bridge.registry.rollback_records import PinnedContent

_MOVES = 1000
"""How many moves of a selector are looked through for another state."""


@dataclass(frozen=True, slots=True)
class EarlierModel:
    """What a model was just after the event `seq`, at `at`: how it was wanted, and the contents that it served.

    A fingerprint is empty where nobody read the content.
    """

    seq: int
    at: int
    spec: ModelSpec
    contents: tuple[PinnedContent, ...]


@dataclass(frozen=True, slots=True)
class EarlierLabel:
    """What a label meant just after the event `seq`, at `at`; no `version` is no label."""

    seq: int
    at: int
    version: int | None
    fingerprint: str


def earlier_model(registry: Registry, name: str, seq: int) -> EarlierModel:
    """Raises FailedPrecondition where the model was not there or served nothing, OUT_OF_RANGE for no such event."""
    subject = model_subject(name)
    at, state = _state(registry, seq, subject)
    live = state.live.state if state and state.live else None
    if state is None or live is None:
        raise FailedPrecondition(f"Model '{name}' served nothing at event #{seq}, so there is nothing to go back to.")
    if "versions" not in live:
        raise InvalidArgument(f"'{name}' is a registered model; a rollback is made of the vmodel that means it.")
    spec = _spec(name, state, _labels(registry, name, seq)) or _removed(registry, name, seq)
    if spec is None:
        raise FailedPrecondition(f"The history does not tell how model '{name}' was configured at event #{seq}.")
    contents = tuple(_content(registry, state, name, version) for version in sorted(live["versions"]))
    return EarlierModel(seq, at, spec, contents)


def earlier_label(registry: Registry, model: str, label: str, seq: int) -> EarlierLabel:
    """Raises OUT_OF_RANGE for no such event."""
    at, state = _state(registry, seq, label_subject(model, label))
    live = state.live.state if state and state.live else None
    if live is not None:
        return EarlierLabel(seq, at, live["version"], live.get("fingerprint", ""))
    wanted = state.wanted.state if state and state.wanted else None
    return EarlierLabel(seq, at, wanted["version"] if wanted else None, "")


def before_last_change(registry: Registry, subject: str) -> int:
    """The event before what changed last what a model resolves to. Raises FailedPrecondition where nothing did."""
    now = registry.live().get(subject)
    removed = _last(registry, subject, ModelRemoved.action)
    if removed is not None and not _is_configured(registry, subject):
        return before_transaction(registry, removed.seq)
    for move in _events(registry, subject, LiveMoved.action):
        cause = (move.after or {}).get("cause")
        seq = before_transaction(registry, min(move.seq, cause["seq"] if cause else move.seq))
        before = _live(registry, seq, subject) if seq > 0 else None
        if before is not None and not _same(before, now):
            return seq
    raise FailedPrecondition(f"The history knows no earlier state of {subject} to go back to.")


def before_last_setting(registry: Registry, subject: str) -> int:
    """The event before somebody set or removed a label the last time. Raises FailedPrecondition where nobody did."""
    found = [event for action in _LABEL_ACTIONS if (event := _last(registry, subject, action)) is not None]
    if not found:
        raise FailedPrecondition(f"The history knows no earlier state of {subject} to go back to.")
    return before_transaction(registry, max(event.seq for event in found))


def before_transaction(registry: Registry, seq: int) -> int:
    """The event before all those that were written together with the event `seq`; 0 for none."""
    last: EventRecord | None = None
    while True:
        query = HistoryQuery(after=max(seq - _PAGE, 0), limit=_PAGE, newest_first=False)
        page = [event for event in registry.history(query) if event.seq <= seq]
        for event in reversed(page):
            last = last or event
            if _origin(event) != _origin(last):
                return event.seq
        if not page:
            return 0
        seq = page[0].seq - 1


def _origin(event: EventRecord) -> tuple[Any, ...]:
    """One transaction has one time and one actor."""
    return event.at, event.actor, event.source, event.request_id


_LABEL_ACTIONS = (LabelSet.action, LabelRemoved.action)

_PAGE = 500
"""Events that are read at a time."""


def _is_configured(registry: Registry, subject: str) -> bool:
    return subject in {model_subject(model.name) for model in registry.models()}


def _state(registry: Registry, seq: int, subject: str) -> tuple[int, SubjectState | None]:
    found = registry.state_at_seq(seq, subject)
    return found.at, found.subjects[0] if found.subjects else None


def _live(registry: Registry, seq: int, subject: str) -> JsonObject | None:
    _, state = _state(registry, seq, subject)
    return state.live.state if state and state.live else None


def _same(before: JsonObject, now: JsonObject | None) -> bool:
    """Whether both serve the same versions with the same content, as far as that is known."""
    if now is None or (before["version"], before["versions"]) != (now["version"], now["versions"]):
        return False
    fingerprints = before.get("fingerprint"), now.get("fingerprint")
    return fingerprints[0] == fingerprints[1] or not all(fingerprints)


def _spec(name: str, state: SubjectState, labels: Mapping[str, int]) -> ModelSpec | None:
    wanted = state.wanted.state if state.wanted else None
    return _as_spec(name, {**wanted, "labels": labels}) if wanted is not None and "base_path" in wanted else None


def _removed(registry: Registry, name: str, seq: int) -> ModelSpec | None:
    """The model as it was when it was removed last before that event, while it still served."""
    query = HistoryQuery(subject=model_subject(name), action=ModelRemoved.action, limit=_MOVES)
    removed = next((event for event in registry.history(query) if event.seq <= seq + 1), None)
    return _as_spec(name, removed.before) if removed is not None else None


def _as_spec(name: str, wanted: Mapping[str, Any]) -> ModelSpec:
    return ModelSpec(
        name=name,
        base_path=wanted["base_path"],
        platform=wanted["platform"],
        policy=wanted["policy"],
        labels=wanted["labels"],
        logging=wanted.get("logging", {}),
    )


def _labels(registry: Registry, model: str, seq: int) -> dict[str, int]:
    prefix = label_subject(model, "")
    # Names may hold slashes: label:a/b/c is of model a/b where there was one.
    deeper = tuple(
        label_subject(item.name, "") for item in registry.models(removed=True) if item.name.startswith(f"{model}/")
    )
    subjects = (subject for subject in registry.subjects(prefix) if not subject.startswith(deeper))
    labels = (subject.removeprefix(prefix) for subject in subjects)
    found = ((label, earlier_label(registry, model, label, seq).version) for label in labels)
    return {label: version for label, version in found if version is not None}


def _content(registry: Registry, state: SubjectState, model: str, version: int) -> PinnedContent:
    fact = next((fact for fact in state.observed if (fact.state or {}).get("version") == version), None)
    seen: Mapping[str, Any] = (fact.state if fact else None) or {}
    content = PinnedContent(version, seen.get("fingerprint", ""), seen.get("path", ""))
    if content.fingerprint or fact is None:
        return content
    # The version served already while its content was being read.
    query = HistoryQuery(
        subject=model_subject(model),
        action=ProvenanceRecorded.action,
        after=fact.seq,
        limit=_MOVES,
        newest_first=False,
    )
    later = (event.after for event in registry.history(query) if event.after["version"] == version)
    found = next(later, None)
    return replace(content, fingerprint=found["fingerprint"]) if found is not None else content


def _last(registry: Registry, subject: str, action: str) -> EventRecord | None:
    return next(_events(registry, subject, action, limit=1), None)


def _events(registry: Registry, subject: str, action: str, limit: int = _MOVES) -> Iterator[EventRecord]:
    yield from registry.history(HistoryQuery(subject=subject, action=action, limit=limit))
