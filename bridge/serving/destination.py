"""From a name to what answers for it: TF Serving's models, vmodels and registered models."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from bridge.codec.model_spec import ModelSpec, Namespace
from bridge.errors import Internal, InvalidArgument, NotFound, Unavailable, Unimplemented
from bridge.serving.resolve import resolve
from bridge.serving.routes import Destination, LoadFailure, Routes, ServableRoute

MODEL_NOT_FOUND = "model not found"
VMODEL_NOT_FOUND = "vmodel not found"


class NotLoaded(Unavailable):
    """A registered model without a copy: demand one and wait. `failure` is the answer to earlier demands."""

    def __init__(self, model_id: str, failure: LoadFailure | None) -> None:
        super().__init__(f"Model {model_id} is not loaded.")
        self.model_id = model_id
        self.failure = failure


class Found(NamedTuple):
    """What a name means now. `registered` is the id of the registered model that is used, empty for others."""

    destination: Destination
    registered: str = ""


def find(routes: Routes, spec: ModelSpec | None) -> Found:
    """What answers for `spec`. It bears the name that was asked for, whatever the model behind it is called.

    Raises NotLoaded, NotFound, Internal (a vmodel without its model), InvalidArgument, and what `resolve` raises.
    """
    if spec is not None:
        for namespace in spec.lookup:
            if _knows(routes, namespace, spec.name):
                return _FIND[namespace](routes, spec)
        if spec.lookup[0] is not Namespace.MODELS and spec.name:
            raise NotFound(VMODEL_NOT_FOUND if spec.lookup[0] is Namespace.VMODELS else MODEL_NOT_FOUND)
    return Found(resolve(routes, spec))


def as_servable(destination: Destination) -> ServableRoute:
    """`destination` as a SavedModel. Raises Unimplemented for any other model."""
    if isinstance(destination, ServableRoute):
        return destination
    raise Unimplemented(f"Model {destination.model} is no SavedModel: it takes KServe V2 inference only.")


def _knows(routes: Routes, namespace: Namespace, name: str) -> bool:
    if namespace is Namespace.MODELS:
        model = routes.models.get(name)
        return model is not None and (model.configured or bool(model.servables))
    return name in (routes.vmodels if namespace is Namespace.VMODELS else routes.registered)


def _model(routes: Routes, spec: ModelSpec) -> Found:
    return Found(resolve(routes, spec))


def _vmodel(routes: Routes, spec: ModelSpec) -> Found:
    active = routes.vmodels[spec.name].active
    if active not in routes.registered:
        raise Internal(f"Target model {active} of vmodel {spec.name} not found")
    return _loaded(routes, active, spec)


def _registered(routes: Routes, spec: ModelSpec) -> Found:
    return _loaded(routes, spec.name, spec)


def _loaded(routes: Routes, model_id: str, spec: ModelSpec) -> Found:
    registered = routes.registered[model_id]
    destination = registered.loaded
    if destination is None:
        raise NotLoaded(model_id, registered.failure)
    if isinstance(destination, ServableRoute):
        _check_version(destination, spec)
    if destination.model != spec.name:
        destination = replace(destination, model=spec.name)
    return Found(destination, model_id)


def _check_version(servable: ServableRoute, spec: ModelSpec) -> None:
    if spec.label is not None:
        raise InvalidArgument(f"Unrecognized servable version label: {spec.label}")
    if spec.version is not None and spec.version != servable.version:
        raise NotFound(f"Servable not found for request: Specific({spec.name}, {spec.version})")


_FIND = {Namespace.MODELS: _model, Namespace.VMODELS: _vmodel, Namespace.REGISTERED: _registered}
