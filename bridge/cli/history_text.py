"""The history's answers as lines for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bridge.cli import output
from bridge.registry.history_records import Change, changes

JsonObject = Mapping[str, Any]

EVENT_COLUMNS = ("SEQ", "TIME", "SUBJECT", "ACTION", "CHANGE", "BY", "REASON")
LIVE_COLUMNS = ("SUBJECT", "LIVE", "SINCE", "BY", "WHY", "FILES", "FINGERPRINT")
CHANGE_COLUMNS = ("SUBJECT", "ASPECT", "WHAT", "FROM", "TO", "EVENTS")
INTERVAL_COLUMNS = ("FROM", "TO", "LIVE", "BY", "WHY", "FILES", "FINGERPRINT")


def event_row(event: JsonObject) -> output.Row:
    return (
        str(event["seq"]),
        output.moment(event["at"]),
        event["subject"],
        event["action"],
        output.joined([_change(item) for item in changes(event["before"] or {}, event["after"] or {})]),
        _by(event),
        event["reason"],
    )


def live_rows(subjects: Sequence[JsonObject]) -> list[output.Row]:
    """A row for each selector that was served at that time."""
    return [_live_row(item["subject"], item["live"]) for item in subjects if item["live"] and item["live"]["state"]]


def facts(subject: JsonObject) -> dict[str, str]:
    """Everything that is known of one subject, by name."""
    found = {"subject": subject["subject"]}
    if subject["live"]:
        found |= _live_facts(subject["live"])
    if subject["wanted"]:
        found["wanted"] = _told(text(subject["wanted"]["state"]) or "nothing", subject["wanted"])
    for fact in subject["observed"]:
        found[_observed_name(fact)] = _told(_observed(fact["state"] or {}), fact)
    return found


def change_rows(subjects: Sequence[JsonObject]) -> list[output.Row]:
    return [
        (
            subject["subject"],
            subject["aspect"],
            change["path"],
            text(change["before"]),
            text(change["after"]),
            output.joined([f"#{seq}" for seq in subject["events"]]),
        )
        for subject in subjects
        for change in subject["changes"]
    ]


def interval_row(interval: JsonObject) -> output.Row:
    state = interval["state"]
    end = output.moment(interval["end"]) if interval["end"] is not None else ""
    return (output.moment(interval["start"]), end, _resolved(state), _by(interval), _why(interval), *_files(state))


def gap(found: Sequence[int | None]) -> str:
    start, end = found
    until = f"to {output.moment(end)}" if end is not None else "on"
    return f"No bridge served from {output.moment(start or 0)} {until}."


def text(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _change(change: Change) -> str:
    before, after = text(change.before), text(change.after)
    return f"{change.path}: {before} -> {after}" if before and after else f"{change.path}: {after or before + ' ->'}"


def _live_row(subject: str, live: JsonObject) -> output.Row:
    state = live["state"]
    return (subject, _resolved(state), output.moment(live["since"]), _by(live), _why(live), *_files(state))


def _live_facts(live: JsonObject) -> Iterator[tuple[str, str]]:
    state = live["state"]
    if state is None:
        yield "live", _told("nothing", live)
        return
    yield "live", _told(_resolved(state), live)
    path, fingerprint = _files(state)
    yield "files", path
    if fingerprint:
        yield "fingerprint", fingerprint
    if state.get("versions"):
        yield "versions", output.joined(state["versions"])


def _resolved(state: JsonObject) -> str:
    """What a selector meant."""
    if "version" in state:
        return f"{state['model']} version {state['version']}"
    return f"{state['model']} (registration {state['generation']})"


def _files(state: JsonObject) -> tuple[str, str]:
    return state.get("path", ""), state.get("fingerprint", "")


def _told(what: str, fact: JsonObject) -> str:
    reason = f": {fact['reason']}" if fact["reason"] else ""
    return f"{what}, since {output.moment(fact['since'])}, by {_by(fact)}, {fact['action']}{reason}"


def _observed_name(fact: JsonObject) -> str:
    version = (fact["state"] or {}).get("version")
    return f"version {version}" if isinstance(version, int) else "seen"


def _observed(state: JsonObject) -> str:
    message = f" ({state['message']})" if state.get("message") else ""
    return f"{state['state']}{message}" if "state" in state else text(state)


def _by(item: JsonObject) -> str:
    return f"{item['actor']} ({item['source']})"


def _why(item: JsonObject) -> str:
    """What happened and for which reason."""
    cause = item.get("cause") or item.get("action") or ""
    return f"{cause}: {item['reason']}" if item["reason"] else cause
