"""From a ModelSpec to the version that answers, with TF Serving's codes and sentences."""

from __future__ import annotations

from bridge.codec.predict import ModelSpec
from bridge.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable, Unimplemented
from bridge.serving.routes import ModelRoute, Routes, ServableRoute, SignatureRoute

DEFAULT_SIGNATURE = "serving_default"
"""The signature that a request means when it names none."""


class NotLoadedYet(Unavailable):
    """The server has just started and loads what the request asks for: wait for the next snapshot."""


def resolve(routes: Routes, spec: ModelSpec | None) -> ServableRoute:
    """The version that `spec` asks for: by number, by label, or the highest AVAILABLE one.

    A servable without instances is an answer too: it lost its copies and comes back.

    Raises InvalidArgument (no spec, no name, unknown label, also of an unknown model), NotFound (not AVAILABLE),
    NotLoadedYet and Unavailable (a label before any configuration).
    """
    if spec is None:
        raise InvalidArgument("Missing ModelSpec")
    if not spec.name:
        raise InvalidArgument("ModelSpec has no name specified.")
    if spec.label is not None:
        return _specific(routes, spec.name, _labelled(routes, spec.name, spec.label))
    if spec.version is not None:
        return _specific(routes, spec.name, spec.version)
    return _latest(routes, spec.name)


def _labelled(routes: Routes, name: str, label: str) -> int:
    if not routes.configured:
        raise Unavailable(f"Model labels does not init yet.{label}")
    model = routes.models.get(name)
    if model is not None and model.unread:
        raise NotLoadedYet(f"Model {name} is not loaded yet.")
    if model is None or label not in model.labels:
        raise InvalidArgument(f"Unrecognized servable version label: {label}")
    return model.labels[label]


def _specific(routes: Routes, name: str, version: int) -> ServableRoute:
    model = routes.models.get(name)
    if model is None or version not in model.servables:
        if model is not None and (model.unread or version in model.awaited):
            raise NotLoadedYet(f"Model {name} version {version} is not loaded yet.")
        raise NotFound(f"Servable not found for request: Specific({name}, {version})")
    return model.servables[version]


def _latest(routes: Routes, name: str) -> ServableRoute:
    model = routes.models.get(name)
    servable = None if model is None else model.latest()
    if model is not None and _awaits_higher(model, servable):
        raise NotLoadedYet(f"Model {name} is not loaded yet.")
    if servable is None:
        raise NotFound(f"Servable not found for request: Latest({name})")
    return servable


def _awaits_higher(model: ModelRoute, servable: ServableRoute | None) -> bool:
    if servable is None:
        return model.unread or bool(model.awaited)
    return max(model.awaited, default=servable.version) > servable.version


def predict_signature(servable: ServableRoute, name: str) -> SignatureRoute:
    """The signature of a Predict call over gRPC; an empty `name` means `serving_default`.

    Raises FailedPrecondition for an unknown one, Unimplemented for one that cannot be served.
    """
    key = name or DEFAULT_SIGNATURE
    signature = servable.signatures.get(key)
    if signature is None:
        raise FailedPrecondition(f'Serving signature key "{key}" not found.')
    return served(signature)


def examples_signature(servable: ServableRoute, name: str) -> SignatureRoute:
    """The signature of a Classify or Regress call, which may be one that cannot be served.

    Raises InvalidArgument for an unknown one.
    """
    key = name or DEFAULT_SIGNATURE
    signature = servable.signatures.get(key)
    if signature is None:
        raise InvalidArgument(f"No signature was found with the name: {key}")
    return signature


def rest_signature(servable: ServableRoute, name: str) -> SignatureRoute:
    """The signature of a REST predict call: TF Serving's REST shell has another code and sentence, and needs inputs.

    Raises InvalidArgument for an unknown one or one without inputs, Unimplemented for one that cannot be served.
    """
    key = name or DEFAULT_SIGNATURE
    signature = servable.signatures.get(key)
    if signature is None:
        raise InvalidArgument(f'Serving signature name: "{key}" not found in signature def')
    if not signature.inputs:
        raise InvalidArgument(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    return served(signature)


def served(signature: SignatureRoute) -> SignatureRoute:
    """`signature` itself. Raises Unimplemented if it cannot be served."""
    if signature.problem:
        raise Unimplemented(signature.problem)
    return signature
