"""TF Serving's MultiInference: several Classify and Regress questions about the same Examples in one session run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from bridge.codec.examples import InferenceTask
from bridge.errors import InvalidArgument, Unimplemented
from bridge.serving import method_names
from bridge.serving.classify import Classifier, classifier
from bridge.serving.regress import Regressor, regressor
from bridge.serving.resolve import DEFAULT_SIGNATURE
from bridge.serving.routes import ServableRoute, TensorRoute

Head = Classifier | Regressor
"""One question that a signature answers."""


def heads(servable: ServableRoute, tasks: Sequence[InferenceTask], *, check_method_name: bool) -> list[Head]:
    """The questions of `tasks` in their order. Raises InvalidArgument or Unimplemented."""
    return list(_heads(servable, tasks, check_method_name))


def _heads(servable: ServableRoute, tasks: Sequence[InferenceTask], check_method_name: bool) -> Iterator[Head]:
    seen: set[str] = set()
    for task in tasks:
        if not task.spec.name:
            raise InvalidArgument("Found ModelSpec with an empty model name.")
        if task.spec.name != servable.model:
            raise InvalidArgument("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        name = task.spec.signature or DEFAULT_SIGNATURE
        if name in seen:
            raise InvalidArgument(f"Duplicate evaluation of signature: {name}")
        seen.add(name)
        yield _head(servable, name, task.method_name, check_method_name)


def _head(servable: ServableRoute, name: str, method_name: str, check_method_name: bool) -> Head:
    signature = servable.signatures.get(name)
    if signature is None:
        raise InvalidArgument(f"Requested signature not found in model graph: {name}")
    if method_name == method_names.CLASSIFY:
        return classifier(servable, signature, check_method_name=check_method_name)
    if method_name == method_names.REGRESS:
        return regressor(servable, signature, check_method_name=check_method_name)
    raise Unimplemented(f"Unsupported signature method_name: {method_name}")


def inputs(heads: Sequence[Head]) -> list[TensorRoute]:
    """The distinct tensors that the Examples are fed to."""
    return list({head.input.tensor: head.input for head in heads}.values())


def fetches(heads: Sequence[Head]) -> list[TensorRoute]:
    """The distinct tensors that the questions need."""
    return list({route.tensor: route for route in chain.from_iterable(head.fetches for head in heads)}.values())
