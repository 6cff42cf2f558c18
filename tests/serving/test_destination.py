from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.codec.model_spec import MODELS_FIRST, ModelSpec, Namespace
from bridge.errors import BridgeError, Code, Unimplemented
from bridge.serving.addressing import MODELMESH
from bridge.serving.destination import NotLoaded, as_servable, find
from bridge.serving.routes import LoadFailure, RegisteredRoute, V2Route, VModelRoute
from bridge.serving.routes_json import dumps, loads
from tests.serving import snapshots

MESH = MODELMESH.lookup
REGISTERED, VMODEL = (Namespace.REGISTERED,), (Namespace.VMODELS,)
V2 = V2Route("ready", "mm.00000000.ready.1", ("one",))


def registered(id: str, **fields: object) -> RegisteredRoute:
    servable = replace(snapshots.servable(id, 7), triton_name=f"mm.00000000.{id}.1")
    return replace(RegisteredRoute(id, servable=servable), **fields)  # type: ignore[arg-type]


ROUTES = replace(
    snapshots.routes(
        snapshots.model("half", [snapshots.servable(version=1)]),
        snapshots.model("both", [snapshots.servable("both", version=1)]),
        replace(snapshots.model("left", [], ended=[1]), configured=False),
    ),
    registered={
        route.id: route
        for route in (
            registered("m"),
            registered("both"),
            registered("left"),
            registered("cold", servable=None),
            registered("gone", servable=replace(snapshots.servable("gone", 7), instances=())),
            registered("broken", servable=None, failure=LoadFailure(3, Code.INTERNAL, "no file")),
            RegisteredRoute("ready", v2=V2),
        )
    },
    vmodels={
        id: VModelRoute(id, active)
        for id, active in (("v", "m"), ("both", "m"), ("dangling", "nobody"), ("waits", "cold"), ("x", "ready"))
    },
)


@pytest.mark.parametrize(
    ("name", "lookup", "triton_name", "used"),
    [
        ("half", MODELS_FIRST, "tfs.00000000.half.1", ""),
        ("half", MESH, "tfs.00000000.half.1", ""),
        ("both", MODELS_FIRST, "tfs.00000000.both.1", ""),
        ("both", MESH, "mm.00000000.m.1", "m"),
        ("both", REGISTERED, "mm.00000000.both.1", "both"),
        ("left", MODELS_FIRST, "mm.00000000.left.1", "left"),
        ("m", MODELS_FIRST, "mm.00000000.m.1", "m"),
        ("m", MESH, "mm.00000000.m.1", "m"),
        ("v", MODELS_FIRST, "mm.00000000.m.1", "m"),
        ("v", VMODEL, "mm.00000000.m.1", "m"),
        ("ready", MESH, "mm.00000000.ready.1", "ready"),
        ("x", MODELS_FIRST, "mm.00000000.ready.1", "ready"),
    ],
)
def test_what_a_name_means(name: str, lookup: tuple[Namespace, ...], triton_name: str, used: str) -> None:
    found = find(ROUTES, ModelSpec(name, lookup=lookup))
    assert (found.destination.triton_name, found.registered) == (triton_name, used)
    assert found.destination.model == name


def test_versions_of_registered_models() -> None:
    assert find(ROUTES, ModelSpec("v", version=7)).registered == "m"


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        (ModelSpec("nope", lookup=MESH), Code.NOT_FOUND, "vmodel not found"),
        (ModelSpec("nope", lookup=VMODEL), Code.NOT_FOUND, "vmodel not found"),
        (ModelSpec("m", lookup=VMODEL), Code.NOT_FOUND, "vmodel not found"),
        (ModelSpec("nope", lookup=REGISTERED), Code.NOT_FOUND, "model not found"),
        (ModelSpec("half", lookup=REGISTERED), Code.NOT_FOUND, "model not found"),
        (ModelSpec("nope"), Code.NOT_FOUND, "Servable not found for request: Latest(nope)"),
        (ModelSpec("dangling"), Code.INTERNAL, "Target model nobody of vmodel dangling not found"),
        (ModelSpec("v", version=8), Code.NOT_FOUND, "Servable not found for request: Specific(v, 8)"),
        (ModelSpec("v", label="stable"), Code.INVALID_ARGUMENT, "Unrecognized servable version label: stable"),
        (None, Code.INVALID_ARGUMENT, "Missing ModelSpec"),
        (ModelSpec(lookup=MESH), Code.INVALID_ARGUMENT, "ModelSpec has no name specified."),
    ],
)
def test_refusals(spec: ModelSpec | None, code: Code, message: str) -> None:
    with pytest.raises(BridgeError) as caught:
        find(ROUTES, spec)
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(("name", "id"), [("cold", "cold"), ("waits", "cold"), ("gone", "gone"), ("broken", "broken")])
def test_models_without_a_copy_are_to_be_loaded(name: str, id: str) -> None:
    with pytest.raises(NotLoaded) as caught:
        find(ROUTES, ModelSpec(name))
    assert (caught.value.model_id, caught.value.failure) == (id, ROUTES.registered[id].failure)


def test_a_triton_model_is_no_savedmodel() -> None:
    assert as_servable(snapshots.servable()).model == "half"
    with pytest.raises(Unimplemented, match=r"^Model ready is no SavedModel: it takes KServe V2 inference only\.$"):
        as_servable(V2)


def test_destinations_are_those_with_a_copy() -> None:
    names = {route.triton_name for route in ROUTES.destinations()}
    assert "mm.00000000.ready.1" in names
    assert not any("gone" in name for name in names)
    assert {route.model for route in ROUTES.servables()} == {"half", "both", "m", "left"}


def test_they_survive_the_wire() -> None:
    assert loads(dumps(ROUTES)) == ROUTES
