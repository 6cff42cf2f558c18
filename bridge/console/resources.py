"""The resources of the admin API as its OpenAPI document describes them. Whoever adds a route adds it here."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.console import json_schema as js
from bridge.console import vmodel_body
from bridge.lifecycle.operations import InstanceView, LabelView, ModelView, ProvenanceView, VersionView
from bridge.lifecycle.rollback_plan import RollbackPlan
from bridge.modelmesh.operations import RegisteredModelView, VModelView
from bridge.registry.anchors import Anchor
from bridge.registry.chain import Break
from bridge.registry.expectations import Difference
from bridge.registry.history_records import Diff, LiveInterval, StateAt
from bridge.registry.records import EventRecord
from bridge.registry.verification import Verification

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter."""

    name: str
    says: str
    schema: js.Schema = field(default_factory=lambda: js.TEXT)
    required: bool = False


@dataclass(frozen=True, slots=True)
class Resource:
    """One method of one path below /api/v1/. `answer` is the schema of a success, `body` that of a JSON body."""

    method: str
    path: str
    says: str
    answer: js.Schema
    parameters: tuple[Parameter, ...] = ()
    body: js.Schema | None = None
    media: str = JSON

    @property
    def changes(self) -> bool:
        return self.method != "GET"


def _optional(name: str, says: str, schema: js.Schema = js.TEXT) -> Parameter:
    return Parameter(name, says, schema)


def _needed(name: str, says: str) -> Parameter:
    return Parameter(name, says, required=True)


def _list(path: str, says: str, kind: type, *parameters: Parameter) -> Resource:
    return Resource("GET", path, says, js.envelope(**{path: js.array(js.record(kind))}), parameters)


CHANGED = js.envelope(changed=js.FLAG)
POLICY: js.Schema = {
    **js.OBJECT,
    "description": 'A version policy: {"latest": {"num_versions": N}}, {"all": {}} or {"specific": {"versions": [N]}}',
}
VMODEL: js.Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(vmodel_body.TEXTS, js.TEXT),
        **dict.fromkeys(vmodel_body.FLAGS, js.FLAG),
        "info": {
            "type": ["object", "null"],
            "properties": {"type": js.TEXT, "path": js.TEXT, "key": js.TEXT},
            "additionalProperties": False,
        },
    },
    "required": ["target"],
    "additionalProperties": False,
}


def _told(kind: type) -> js.Schema:
    """A record with the sentence that tells of it."""
    schema = js.record(kind)
    return {
        **schema,
        "properties": {**schema["properties"], "text": js.TEXT},
        "required": [*schema["required"], "text"],
    }


_VERIFICATION = js.record(Verification)
VERIFICATION: js.Schema = {
    **_VERIFICATION,
    "properties": {
        **_VERIFICATION["properties"],
        "broken": {"anyOf": [_told(Break), {"type": "null"}]},
        "differences": js.array(_told(Difference)),
        "whole": js.FLAG,
    },
    "required": [*_VERIFICATION["required"], "whole"],
}
_PLAN = js.record(RollbackPlan)
PLAN: js.Schema = {
    **_PLAN,
    "properties": {**_PLAN["properties"], "reference": js.TEXT},
    "required": [*_PLAN["required"], "reference"],
}

_SUBJECT = "model:NAME, label:MODEL/LABEL, vmodel:ID, instance:NAME, server, or a name that only one has"
_TIME = "ISO 8601, with an offset or in UTC"
_AFTER = _optional("after", "only events past this sequence number", js.NUMBER)
_LIMIT = _optional("limit", "how many at most, 1 to 1000", js.NUMBER)
_ROLLBACK = (_needed("subject", _SUBJECT), _optional("to", f"{_TIME}, or #SEQ for the state after an event"))

RESOURCES: tuple[Resource, ...] = (
    _list("models", "Models as they are wanted, with what serves.", ModelView, _optional("name", "only this model")),
    _list("versions", "Versions as they were observed last.", VersionView, _optional("model", "only of this model")),
    _list("labels", "Labels as they are wanted.", LabelView, _optional("model", "only of this model")),
    _list("instances", "Triton instances.", InstanceView),
    _list(
        "events",
        "The newest events.",
        EventRecord,
        _optional("subject", "only about this subject, in full"),
        _optional("action", "only of this kind"),
        _AFTER,
        _LIMIT,
    ),
    Resource(
        "PUT", "policy", "Have a policy choose a model's versions.", CHANGED, (_needed("model", "the model"),), POLICY
    ),
    Resource(
        "PUT",
        "label",
        "Point a label at a version.",
        CHANGED,
        (_needed("model", "the model"), _needed("label", "the label")),
        js.envelope(version=js.NUMBER),
    ),
    Resource(
        "DELETE",
        "label",
        "Remove a label.",
        CHANGED,
        (_needed("model", "the model"), _needed("label", "the label")),
    ),
    _list(
        "provenance",
        "The contents that a model's versions had, and where they came from.",
        ProvenanceView,
        _needed("model", "the model"),
        _optional("version", "one version", js.NUMBER),
    ),
    Resource("GET", "rollback", "What a rollback would change.", js.envelope(rollback=PLAN), _ROLLBACK),
    Resource(
        "POST",
        "rollback",
        "Put back what a subject resolved to before.",
        js.envelope(changed=js.FLAG, rollback=PLAN),
        _ROLLBACK,
    ),
    Resource("DELETE", "pin", "Let a model follow its policy again.", CHANGED, (_needed("model", "the model"),)),
    _list(
        "history",
        "Events by filter, the newest first.",
        EventRecord,
        _optional("subject", _SUBJECT),
        _optional("from", f"only events from this time on: {_TIME}"),
        _optional("until", f"only events before this time: {_TIME}"),
        _optional("actor", "only what this actor did"),
        _optional("action", "only of this kind"),
        _AFTER,
        _optional("before", "only events before this sequence number", js.NUMBER),
        _LIMIT,
    ),
    Resource(
        "GET",
        "history/at",
        "What was wanted, live and seen at a time. Times in answers are microseconds UTC.",
        js.envelope(state=js.record(StateAt)),
        (_needed("time", f"{_TIME}, or #SEQ for the state after an event"), _optional("subject", _SUBJECT)),
    ),
    Resource(
        "GET",
        "history/diff",
        "What differs between two times.",
        js.envelope(diff=js.record(Diff)),
        (_needed("from", _TIME), _needed("to", _TIME), _optional("subject", _SUBJECT)),
    ),
    Resource(
        "GET",
        "history/live",
        "From when to when a model, a label or a vmodel resolved to what.",
        js.envelope(live=js.array(js.record(LiveInterval))),
        (
            _needed("subject", _SUBJECT),
            _optional("version", "only times when this version could be called", js.NUMBER),
        ),
    ),
    _list(
        "registered_models",
        "Models that ModelMesh clients registered.",
        RegisteredModelView,
        _optional("id", "only this model"),
    ),
    _list("vmodels", "vmodels with the models that they mean.", VModelView, _optional("id", "only this vmodel")),
    Resource(
        "PUT", "vmodel", "Have a vmodel mean a registered model.", CHANGED, (_needed("id", "the vmodel"),), VMODEL
    ),
    Resource("DELETE", "vmodel", "Delete a vmodel.", CHANGED, (_needed("id", "the vmodel"),)),
    Resource(
        "GET",
        "verify",
        "Whether the history is whole; takes a while.",
        VERIFICATION,
        (_optional("anchor", "an exported anchor as JSON, from which cut tails are found"),),
    ),
    Resource("GET", "export/anchor", "Where the history is now, to be kept elsewhere.", js.record(Anchor)),
    Resource(
        "GET",
        "export/events",
        "Events as JSON lines.",
        js.TEXT,
        (
            _optional("from", f"only events from this time on: {_TIME}"),
            _optional("until", f"only events before this time: {_TIME}"),
        ),
        media="application/x-ndjson",
    ),
    Resource(
        "GET",
        "stream",
        "Events as they happen, as server-sent events whose ids are sequence numbers: who connects again goes on where "
        "the last one ended.",
        js.TEXT,
        (_optional("after", "begin past this sequence number; without it, with what happens from now on", js.NUMBER),),
        media="text/event-stream",
    ),
    Resource("GET", "openapi.json", "This description.", js.OBJECT),
)
