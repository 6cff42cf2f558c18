from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.codec.predict import ModelSpec
from bridge.errors import BridgeError, Code, NotFound
from bridge.serving.resolve import NotLoadedYet, predict_signature, resolve, rest_signature
from tests.serving import snapshots

ROUTES = snapshots.routes(
    snapshots.model(
        "half",
        [snapshots.servable(version=1), snapshots.servable(version=12), snapshots.servable(version=-5)],
        labels={"stable": 1, "gone": 7},
        ended=[13],
    ),
    snapshots.model("lost", [snapshots.servable("lost", 3, instances=())]),
    snapshots.model("empty", [], ended=[1]),
    snapshots.model("zero", [snapshots.servable("zero", 0)]),
)


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        (ModelSpec("half"), 12),
        (ModelSpec("half", version=1), 1),
        (ModelSpec("half", version=-5), -5),
        (ModelSpec("half", label="stable"), 1),
        (ModelSpec("lost"), 3),
        (ModelSpec("zero", version=0), 0),
    ],
)
def test_resolves(spec: ModelSpec, version: int) -> None:
    assert resolve(ROUTES, spec).version == version


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        (None, Code.INVALID_ARGUMENT, "Missing ModelSpec"),
        (ModelSpec(), Code.INVALID_ARGUMENT, "ModelSpec has no name specified."),
        (ModelSpec("half", version=13), Code.NOT_FOUND, "Servable not found for request: Specific(half, 13)"),
        (ModelSpec("half", version=0), Code.NOT_FOUND, "Servable not found for request: Specific(half, 0)"),
        (ModelSpec("nope", version=1), Code.NOT_FOUND, "Servable not found for request: Specific(nope, 1)"),
        (ModelSpec("nope"), Code.NOT_FOUND, "Servable not found for request: Latest(nope)"),
        (ModelSpec("empty"), Code.NOT_FOUND, "Servable not found for request: Latest(empty)"),
        (ModelSpec("half", label="canary"), Code.INVALID_ARGUMENT, "Unrecognized servable version label: canary"),
        (ModelSpec("nope", label="stable"), Code.INVALID_ARGUMENT, "Unrecognized servable version label: stable"),
        (ModelSpec("half", label="gone"), Code.NOT_FOUND, "Servable not found for request: Specific(half, 7)"),
        (ModelSpec("half", label=""), Code.INVALID_ARGUMENT, "Unrecognized servable version label: "),
    ],
)
def test_refuses(spec: ModelSpec | None, code: Code, message: str) -> None:
    with pytest.raises(BridgeError) as caught:
        resolve(ROUTES, spec)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_labels_wait_for_the_first_configuration() -> None:
    with pytest.raises(BridgeError) as caught:
        resolve(snapshots.routes(configured=False), ModelSpec("half", label="stable"))
    assert (caught.value.code, caught.value.message) == (Code.UNAVAILABLE, "Model labels does not init yet.stable")


def test_empty_signature_name_is_serving_default() -> None:
    assert predict_signature(snapshots.servable(), "").name == "serving_default"
    assert rest_signature(snapshots.servable(), "").name == "serving_default"


def test_unknown_signatures_differ_by_shell() -> None:
    with pytest.raises(BridgeError) as over_grpc:
        predict_signature(snapshots.servable(), "nope")
    with pytest.raises(BridgeError) as over_rest:
        rest_signature(snapshots.servable(), "nope")
    assert (over_grpc.value.code, over_grpc.value.message) == (
        Code.FAILED_PRECONDITION,
        'Serving signature key "nope" not found.',
    )
    assert (over_rest.value.code, over_rest.value.message) == (
        Code.INVALID_ARGUMENT,
        'Serving signature name: "nope" not found in signature def',
    )


def test_rest_refuses_signatures_without_inputs() -> None:
    with pytest.raises(BridgeError, match=r"^Failed to get input map for signature: count$"):
        rest_signature(snapshots.servable(), "count")


def test_a_signature_that_cannot_be_served_says_why() -> None:
    with pytest.raises(BridgeError, match="input r is a resource") as caught:
        predict_signature(snapshots.servable(), "broken")
    assert caught.value.code is Code.UNIMPLEMENTED


STARTING = snapshots.routes(
    replace(snapshots.model("unread", []), unread=True),
    replace(snapshots.model("first", []), awaited=(1, 2)),
    replace(snapshots.model("returning", [snapshots.servable("returning", 1)], labels={"new": 2}), awaited=(2,)),
    replace(snapshots.model("lower", [snapshots.servable("lower", 3)]), awaited=(2,)),
)
"""Models of a server that has just started."""


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec("unread"), "Model unread is not loaded yet."),
        (ModelSpec("unread", version=5), "Model unread version 5 is not loaded yet."),
        (ModelSpec("unread", label="any"), "Model unread is not loaded yet."),
        (ModelSpec("first"), "Model first is not loaded yet."),
        (ModelSpec("first", version=1), "Model first version 1 is not loaded yet."),
        (ModelSpec("returning"), "Model returning is not loaded yet."),
        (ModelSpec("returning", label="new"), "Model returning version 2 is not loaded yet."),
    ],
)
def test_waits_for_the_first_loads(spec: ModelSpec, message: str) -> None:
    with pytest.raises(NotLoadedYet) as caught:
        resolve(STARTING, spec)
    assert (caught.value.code, caught.value.message) == (Code.UNAVAILABLE, message)


@pytest.mark.parametrize(
    ("spec", "version"),
    [(ModelSpec("returning", version=1), 1), (ModelSpec("lower"), 3)],
)
def test_does_not_wait_for_what_nobody_asked_for(spec: ModelSpec, version: int) -> None:
    assert resolve(STARTING, spec).version == version
    with pytest.raises(NotFound):
        resolve(STARTING, ModelSpec("first", version=9))
