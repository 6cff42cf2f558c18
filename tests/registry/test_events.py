"""The catalogue of events: what each says of its subject before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.registry import access_events as a
from bridge.registry import canonical
from bridge.registry import events as e
from bridge.registry import integrity_events as i
from bridge.registry import live_events as v
from bridge.registry import modelmesh_events as m
from bridge.registry import rollback_events as b
from bridge.registry.records import Actor

WANTED = {"base_path": "/m"}
LOADED: dict[str, Any] = {"model": "m", "version": 1, "instance": "i", "triton_name": "t", "size": 7}
OBSERVED: dict[str, Any] = {"version": 1, "code": 0, "message": "", "path": "/m/1", "fingerprint": "f", "size": 7}
CONTENT = {"type": "tensorflow", "generation": 1}
FAILURE: dict[str, Any] = {"instance": "i", "code": 13, "message": "no such op"}
STEADY = {"active": "a", "target": "a", "target_failed": False}
MOVING = {"active": "a", "target": "b", "target_failed": False}
FAILED = {"active": "a", "target": "b", "target_failed": True}
SERVED = {"model": "m", "version": 1, "versions": [1], "fingerprint": "f", "path": "/m/1"}
CAUSE = v.Cause(3, "label set", Actor("alice", "CLI"))
START = e.VersionObserved("m", 1, 10, 0, "", "/m/1", "f", 7)

EXAMPLES: list[tuple[e.Event, str, str, Any, Any]] = [
    (
        e.ConfigApplied("file", "h", 2, {}, {"m": WANTED}),
        "config applied",
        "server",
        {"models": {}},
        {"origin": "file", "content_hash": "h", "revision": 2, "models": {"m": WANTED}},
    ),
    (
        e.ConfigRejected("file", "h", 2, "typo"),
        "config rejected",
        "server",
        None,
        {"origin": "file", "content_hash": "h", "revision": 2, "error": "typo"},
    ),
    (e.ModelAdded("m", WANTED), "model added", "model:m", None, WANTED),
    (e.ModelChanged("m", {}, WANTED), "model changed", "model:m", {}, WANTED),
    (e.ModelRemoved("m", WANTED), "model removed", "model:m", WANTED, None),
    (e.PolicySet("m", {}, WANTED), "policy set", "model:m", {}, WANTED),
    (e.LabelSet("m", "l", None, 1), "label set", "label:m/l", None, {"version": 1}),
    (e.LabelSet("m", "l", 1, 2), "label set", "label:m/l", {"version": 1}, {"version": 2}),
    (e.LabelRemoved("m", "l", 2), "label removed", "label:m/l", {"version": 2}, None),
    (START, "version observed", "model:m", None, OBSERVED | {"state": "START"}),
    (
        e.VersionObserved("m", 1, 50, 3, "no such op", "/m/1", "f", 7, START),
        "version observed",
        "model:m",
        OBSERVED | {"state": "START"},
        OBSERVED | {"state": "END", "code": 3, "message": "no such op"},
    ),
    (e.CopyLoaded(**LOADED), "copy loaded", "model:m", None, LOADED),
    (e.CopyLost(**LOADED, cause="died"), "copy lost", "model:m", LOADED, {"cause": "died"}),
    (
        e.InstanceRegistered("i", {"grpc": "a"}, {"grpc": "b"}),
        "instance registered",
        "instance:i",
        {"grpc": "a"},
        {"grpc": "b"},
    ),
    *(
        (kind("i", "x", "y", "why"), action, "instance:i", {"state": "x"}, {"state": "y", "cause": "why"})
        for kind, action in (
            (e.InstanceUp, "instance up"),
            (e.InstanceLost, "instance lost"),
            (e.InstanceBack, "instance back"),
            (e.InstanceUnwatched, "instance unwatched"),
        )
    ),
    (e.SourceProblem("model:m", "/m", "odd"), "source problem", "model:m", None, {"path": "/m", "problem": "odd"}),
    (
        e.SourceProblem("model:m", "/m", "odder", "odd"),
        "source problem",
        "model:m",
        {"path": "/m", "problem": "odd"},
        {"path": "/m", "problem": "odder"},
    ),
    (e.SourceCleared("model:m", "/m", "odd"), "source cleared", "model:m", {"path": "/m", "problem": "odd"}, None),
    (
        e.ServerStarted("0.1", {"port": 1}),
        "server started",
        "server",
        None,
        {"version": "0.1", "settings": {"port": 1}},
    ),
    (e.ServerStopped("SIGTERM"), "server stopped", "server", None, {"cause": "SIGTERM"}),
    (e.ServerLost("p", 7), "server lost", "server", None, {"process": "p", "until": 7}),
    (v.LiveMoved("model:m", None, SERVED), "live moved", "model:m", None, SERVED),
    (
        v.LiveMoved("label:m/l", SERVED, None, CAUSE, until=7),
        "live moved",
        "label:m/l",
        SERVED,
        {"cause": {"seq": 3, "action": "label set"}, "until": 7},
    ),
    (e.DatabaseMigrated("", "2"), "database migrated", "server", None, {"revision": "2"}),
    (e.DatabaseMigrated("1", "2"), "database migrated", "server", {"revision": "1"}, {"revision": "2"}),
    (e.LeadershipTaken("a", 2, None), "leadership taken", "server", None, {"holder": "a", "fence": 2}),
    (e.LeadershipTaken("a", 2, "b"), "leadership taken", "server", {"holder": "b"}, {"holder": "a", "fence": 2}),
    (e.LeadershipGiven("a", 2), "leadership given back", "server", {"holder": "a", "fence": 2}, None),
    (m.ModelRegistered("m", CONTENT), "model registered", "model:m", None, CONTENT),
    (m.ModelUnregistered("m", CONTENT), "model unregistered", "model:m", CONTENT, None),
    (m.ModelAutoDeleted("m", CONTENT, "v"), "model auto-deleted", "model:m", CONTENT, {"last_vmodel": "v"}),
    (m.LoadFailed("m", **FAILURE), "load failed", "model:m", None, FAILURE),
    (m.LoadFailureForgotten("m", **FAILURE), "load failure forgotten", "model:m", FAILURE, None),
    (m.VModelCreated("v", None, STEADY), "vmodel created", "vmodel:v", None, STEADY),
    (m.VModelTransitionStarted("v", STEADY, MOVING), "vmodel transition started", "vmodel:v", STEADY, MOVING),
    (
        m.VModelTransitionFailed("v", MOVING, FAILED, "no such op"),
        "vmodel transition failed",
        "vmodel:v",
        MOVING,
        FAILED | {"cause": "no such op"},
    ),
    (m.VModelTransitionResumed("v", FAILED, MOVING), "vmodel transition resumed", "vmodel:v", FAILED, MOVING),
    (m.VModelPromoted("v", MOVING, STEADY), "vmodel promoted", "vmodel:v", MOVING, STEADY),
    (m.VModelRolledBack("v", FAILED, STEADY), "vmodel rolled back", "vmodel:v", FAILED, STEADY),
    (m.VModelDeleted("v", STEADY, None), "vmodel deleted", "vmodel:v", STEADY, None),
    (
        b.ProvenanceRecorded("m", 2, None, {"fingerprint": "c"}),
        "provenance recorded",
        "model:m",
        None,
        {"version": 2, "fingerprint": "c"},
    ),
    (
        b.ContentChanged("m", 2, {"fingerprint": "c"}, {"fingerprint": "d"}),
        "content changed",
        "model:m",
        {"version": 2, "fingerprint": "c"},
        {"version": 2, "fingerprint": "d"},
    ),
    (b.RollbackPinned("m", None, {"versions": []}), "rollback pinned", "model:m", None, {"versions": []}),
    (b.RollbackUnpinned("m", {"versions": []}, None), "rollback unpinned", "model:m", {"versions": []}, None),
    (
        b.RolledBack("label:m/l", "#7", {"version": 2}, {"version": 1}),
        "rolled back",
        "label:m/l",
        {"version": 2},
        {"version": 1, "to": "#7"},
    ),
    (
        i.HistoryArchived(1, 9, 7, "h", "a.jsonl", "s", 2, "d"),
        "history archived",
        "server",
        None,
        {
            "first_seq": 1,
            "sealed_upto": 9,
            "until": 7,
            "hash": "h",
            "file": "a.jsonl",
            "sha256": "s",
            "kept": 2,
            "kept_digest": "d",
        },
    ),
    (
        i.HistoryRestored(2, {"seq": 9}, "b.jsonl"),
        "history restored",
        "server",
        None,
        {"epoch": 2, "continues": {"seq": 9}, "file": "b.jsonl"},
    ),
    (
        i.HistoryImported(3, {"seq": 9}, "a.jsonl"),
        "history imported",
        "server",
        None,
        {"epoch": 3, "continues": {"seq": 9}, "file": "a.jsonl"},
    ),
    (
        a.CallDenied("grpc", "Service/Method", "manage", "UNAUTHENTICATED", "No."),
        "call denied",
        "server",
        None,
        {"port": "grpc", "method": "Service/Method", "scope": "manage", "code": "UNAUTHENTICATED", "message": "No."},
    ),
    (
        a.CallsDenied("rest", "predict", "inference", 3, {"UNAUTHENTICATED": 3}, 7, 9),
        "calls denied",
        "server",
        None,
        {
            "port": "rest",
            "method": "predict",
            "scope": "inference",
            "count": 3,
            "codes": {"UNAUTHENTICATED": 3},
            "first": 7,
            "last": 9,
        },
    ),
]


@pytest.mark.parametrize(
    ("event", "action", "subject", "before", "after"), EXAMPLES, ids=[type(example[0]).__name__ for example in EXAMPLES]
)
def test_what_an_event_says(event: e.Event, action: str, subject: str, before: Any, after: Any) -> None:
    assert (event.action, event.subject, event.before(), event.after()) == (action, subject, before, after)
    assert canonical.loads(canonical.dumps(event.after())) == after


def test_every_event_has_an_example_and_an_action_of_its_own() -> None:
    kinds = [kind for kind in subclasses(e.Event) if "action" in vars(kind)]
    assert set(kinds) == {type(example[0]) for example in EXAMPLES}
    assert len({kind.action for kind in kinds}) == len(kinds)


def subclasses(kind: type[e.Event]) -> Iterator[type[e.Event]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)
