"""When a vmodel may change, and to what: ModelMesh's rules, without a database.

`V` is the vmodel, `T` the requested target, `A` the active model. Checks raise what a client gets, in the order in
which setVModel makes them: `check_request`, `check_expectation`, `check_target`, `check_vmodel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bridge.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from bridge.registry import canonical
from bridge.registry.names import check_name
from bridge.registry.records import ModelInfo, RegisteredModel, SetVModel, VModel


class CopiesView(Protocol):
    """How many copies of a registered model the fleet holds, as the caller knows."""

    def copies(self, model_id: str) -> int:
        """Copies that are loaded or loading."""
        ...

    def loaded(self, model_id: str) -> int:
        """Copies that are loaded."""
        ...


class Move(StrEnum):
    """What a request does to a vmodel that exists."""

    KEEP = "keep"
    """Nothing: it is as asked, or on its way there."""
    ROLL_BACK = "roll back"
    """The active model becomes the target again."""
    SWITCH = "switch"
    """The target is active at once."""
    BEGIN = "begin"
    """The target takes over when it is ready."""


@dataclass(frozen=True, slots=True)
class Supply:
    """What the models of a move can serve with: copies of the active model that are loaded or loading, those of them
    that are loaded, loaded copies of the target, and whether a failed load of the target still counts."""

    active_copies: int
    active_loaded: int
    target_loaded: int
    target_failed: bool


def move(vmodel: VModel, request: SetVModel, supply: Supply) -> Move:
    """What `request` does to `vmodel`.

    The target is active at once when that is forced, when it has as many loaded copies as the active model, or when
    the active model serves nobody and nothing is known to be wrong with the target.
    """
    if is_settled(vmodel, request):
        return Move.KEEP
    if request.target == vmodel.active:
        return Move.ROLL_BACK
    if request.force or supply.target_loaded >= copies_needed(supply.active_loaded):
        return Move.SWITCH
    return Move.SWITCH if supply.active_copies == 0 and not supply.target_failed else Move.BEGIN


def is_settled(vmodel: VModel, request: SetVModel) -> bool:
    """Whether `request` has nothing to change: its target is the present one and need not be forced any more."""
    return request.target == vmodel.target and not (request.force and vmodel.in_transition)


def copies_needed(active_loaded: int, places: int | None = None) -> int:
    """How many loaded copies a target needs to take over from a model with `active_loaded` ones, where `places`
    instances may hold it."""
    return max(1, active_loaded if places is None else min(active_loaded, places))


def check_request(request: SetVModel) -> None:
    """Raises InvalidArgument for what is wrong whatever the registry holds."""
    if not request.id:
        raise InvalidArgument("Must provide vModelId")
    if not request.target:
        raise InvalidArgument(f"Must provide target modelId for vmodel {canonical.cut(request.id)}")
    check_name("vmodel id", request.id)
    check_name("model id", request.target)
    if request.info is not None:
        check_info(request.target, request.info)
    for owner in (request.owner, request.default_owner):
        if owner:
            check_name("vmodel owner", owner)


def check_info(model: str, info: ModelInfo) -> None:
    """Raises InvalidArgument for an empty type, and for text that no database could keep."""
    if not info.type:
        raise InvalidArgument("Must provide non-empty model type string")
    for field, text in (("type", info.type), ("path", info.path), ("key", info.key)):
        if canonical.clean(text) != text:
            raise InvalidArgument(f"The {field} of model '{model}' holds a NUL or is not valid Unicode.")


def check_expectation(request: SetVModel, vmodel: VModel | None) -> None:
    """The compare of compare-and-set; a repeated request passes, since it changes nothing.

    Raises FailedPrecondition, or AlreadyExists for another owner, which is told first.
    """
    if not request.expected_target:
        return
    if vmodel is None:
        if request.expected_target != request.target:
            raise FailedPrecondition(f"vmodel {request.id} not found")
        return
    check_owner(request, vmodel)
    if request.expected_target != vmodel.target and not is_settled(vmodel, request):
        raise FailedPrecondition(
            f"Existing target model {vmodel.target} does not match expected {canonical.cut(request.expected_target)}"
        )


def check_target(request: SetVModel, target: RegisteredModel | None) -> None:
    """Raises NotFound if the target is neither there nor described, AlreadyExists if it is there with other content."""
    if request.info is None:
        if target is None:
            raise NotFound(f"Target model {request.target} not found")
    elif target is not None and target.info != request.info:
        raise AlreadyExists(f"Target model {request.target} already exists with different attribute values")


def check_vmodel(request: SetVModel, vmodel: VModel | None) -> None:
    """Raises AlreadyExists for another owner, NotFound if a vmodel that shall only be updated is not there."""
    if vmodel is not None:
        check_owner(request, vmodel)
    elif request.update_only:
        raise NotFound(f"vmodel {request.id} not found")


def check_owner(request: SetVModel, vmodel: VModel) -> None:
    """Raises AlreadyExists if the request names an owner that is not the vmodel's."""
    if request.owner and request.owner != vmodel.owner:
        raise AlreadyExists(f'vmodel {request.id} already exists with different owner "{vmodel.owner}"')
