"""What both shells say about models: states and signatures."""

from __future__ import annotations

from bridge.codec.predict import ModelSpec
from bridge.errors import NotFound
from bridge.serving.routes import Routes, VersionState, VersionStatus


def version_statuses(routes: Routes, spec: ModelSpec) -> tuple[VersionStatus, ...]:
    """The states that GetModelStatus answers, highest version first.

    A label is ignored and an empty name is no error of its own, as in TF Serving. Raises NotFound.
    """
    model = routes.models.get(spec.name)
    statuses = _registered(routes, spec.name) if model is None else model.statuses
    if spec.version is not None:
        statuses = tuple(status for status in statuses if status.version == spec.version)
        if not statuses:
            raise NotFound(f"Could not find version {spec.version} of model {spec.name}")
    if not statuses:
        raise NotFound(f"Could not find any versions of model {spec.name}")
    return statuses


def _registered(routes: Routes, name: str) -> tuple[VersionStatus, ...]:
    """The version of a registered model, or of a vmodel's, while it is loaded."""
    vmodel = routes.vmodels.get(name)
    registered = routes.registered.get(vmodel.active if vmodel else name)
    if registered is None or registered.servable is None:
        return ()
    return (VersionStatus(registered.servable.version, VersionState.AVAILABLE),)
