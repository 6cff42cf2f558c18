"""The state-change matrix of vmodels and the order of setVModel's checks, without a database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.errors import AlreadyExists, BridgeError, FailedPrecondition, InvalidArgument, NotFound
from bridge.registry import ModelInfo, RegisteredModel, SetVModel, VModel
from bridge.registry import vmodel_rules as rules
from bridge.registry.vmodel_rules import Move, Supply

INFO = ModelInfo("tensorflow", "/models/t")
REQUEST = SetVModel("v", "t")
STEADY = VModel("v", "ksp", "a", "a", False, 0, 0)
MOVING = replace(STEADY, target="p")
FAILED = replace(MOVING, target_failed=True)
TARGET = RegisteredModel("t", INFO, True, 1, 0, 0)

IDLE = Supply(0, 0, 0, False)
"""Nothing is loaded."""
LOADED = Supply(1, 1, 0, False)
"""The active model has a copy, the target none."""


@pytest.mark.parametrize("supply", [IDLE, LOADED, Supply(3, 3, 0, True), Supply(1, 1, 5, False)])
@pytest.mark.parametrize(
    ("vmodel", "target", "force", "move"),
    [
        (STEADY, "a", False, Move.KEEP),
        (STEADY, "a", True, Move.KEEP),
        (MOVING, "p", False, Move.KEEP),
        (FAILED, "p", False, Move.KEEP),
        (MOVING, "p", True, Move.SWITCH),
        (FAILED, "p", True, Move.SWITCH),
        (MOVING, "a", False, Move.ROLL_BACK),
        (MOVING, "a", True, Move.ROLL_BACK),
        (FAILED, "a", False, Move.ROLL_BACK),
        (STEADY, "t", True, Move.SWITCH),
        (MOVING, "t", True, Move.SWITCH),
        (FAILED, "t", True, Move.SWITCH),
    ],
)
def test_moves_that_do_not_depend_on_copies(
    vmodel: VModel, target: str, force: bool, move: Move, supply: Supply
) -> None:
    assert rules.move(vmodel, SetVModel("v", target, force=force), supply) is move


@pytest.mark.parametrize("vmodel", [STEADY, MOVING, FAILED])
@pytest.mark.parametrize(
    ("supply", "move", "why"),
    [
        (IDLE, Move.SWITCH, "nobody is served by the active model"),
        (Supply(0, 0, 0, True), Move.BEGIN, "the target is known to fail"),
        (Supply(0, 0, 1, True), Move.SWITCH, "the target failed elsewhere but is loaded"),
        (LOADED, Move.BEGIN, "the active model serves"),
        (Supply(1, 0, 0, False), Move.BEGIN, "the active model is about to serve"),
        (Supply(1, 0, 1, False), Move.SWITCH, "the target serves before the active model does"),
        (Supply(1, 1, 1, False), Move.SWITCH, "the target is ready"),
        (Supply(3, 3, 1, False), Move.BEGIN, "one copy does not replace three"),
        (Supply(3, 2, 2, False), Move.SWITCH, "copies that still load serve nobody"),
        (Supply(2, 2, 3, True), Move.SWITCH, "the target has more"),
    ],
)
def test_a_new_target_by_copies(vmodel: VModel, supply: Supply, move: Move, why: str) -> None:
    assert rules.move(vmodel, REQUEST, supply) is move, why


@pytest.mark.parametrize(
    ("active_loaded", "places", "needed"),
    [(0, 5, 1), (1, 5, 1), (3, 5, 3), (3, 2, 2), (3, 0, 1), (3, None, 3), (0, None, 1)],
)
def test_copies_that_a_target_needs(active_loaded: int, places: int | None, needed: int) -> None:
    assert rules.copies_needed(active_loaded, places) == needed


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (SetVModel("", ""), "^Must provide vModelId$"),
        (SetVModel("v", ""), "^Must provide target modelId for vmodel v$"),
        (SetVModel("v", "", ModelInfo("", "/p")), "^Must provide target modelId for vmodel v$"),
        (SetVModel("v", "t", ModelInfo("", "/p")), "^Must provide non-empty model type string$"),
        (SetVModel("v", "t", ModelInfo("", key="{}")), "^Must provide non-empty model type string$"),
        (SetVModel("v", "t", ModelInfo("x", "a\0b")), "The path of model 't' holds a NUL or is not valid Unicode"),
        (SetVModel("v\0", "t"), "The vmodel id 'v.x00' holds a NUL"),
        (SetVModel("v" * 1025, "t"), "The vmodel id '.*' has 1025 bytes"),
        (SetVModel("v", "t" * 1025), "The model id '.*' has 1025 bytes"),
        (SetVModel("v", "t", owner="o\0"), "The vmodel owner 'o.x00' holds a NUL"),
    ],
)
def test_requests_that_nothing_can_make_good(request_: SetVModel, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        rules.check_request(request_)


def check(request: SetVModel, vmodel: VModel | None, target: RegisteredModel | None) -> None:
    """All checks in the order of setVModel."""
    rules.check_request(request)
    rules.check_expectation(request, vmodel)
    rules.check_target(request, target)
    rules.check_vmodel(request, vmodel)


def asked(**values: object) -> SetVModel:
    return replace(REQUEST, **values)  # type: ignore[arg-type]


OWNED = 'vmodel v already exists with different owner "ksp"'
UNEXPECTED = "Existing target model a does not match expected x"


@pytest.mark.parametrize(
    ("request_", "vmodel", "target", "error", "sentence"),
    [
        (asked(expected_target="x"), None, None, FailedPrecondition, "vmodel v not found"),
        (asked(expected_target="x", owner="isvc"), STEADY, None, AlreadyExists, OWNED),
        (asked(expected_target="x"), STEADY, None, FailedPrecondition, UNEXPECTED),
        (asked(), STEADY, None, NotFound, "Target model t not found"),
        (asked(), None, None, NotFound, "Target model t not found"),
        (asked(owner="isvc"), STEADY, None, NotFound, "Target model t not found"),
        (asked(update_only=True), None, None, NotFound, "Target model t not found"),
        (
            asked(info=ModelInfo("onnx"), owner="isvc"),
            STEADY,
            TARGET,
            AlreadyExists,
            "Target model t already exists with different attribute values",
        ),
        (asked(owner="isvc"), STEADY, TARGET, AlreadyExists, OWNED),
        (asked(owner="isvc", info=INFO), STEADY, None, AlreadyExists, OWNED),
        (
            asked(owner="isvc"),
            replace(STEADY, owner=""),
            TARGET,
            AlreadyExists,
            'vmodel v already exists with different owner ""',
        ),
        (asked(update_only=True), None, TARGET, NotFound, "vmodel v not found"),
        (asked(update_only=True, info=INFO), None, None, NotFound, "vmodel v not found"),
        (asked(update_only=True, expected_target="t"), None, TARGET, NotFound, "vmodel v not found"),
        (
            asked(target="p", expected_target="x", force=True),
            MOVING,
            TARGET,
            FailedPrecondition,
            "Existing target model p does not match expected x",
        ),
    ],
)
def test_what_is_refused_first(
    request_: SetVModel,
    vmodel: VModel | None,
    target: RegisteredModel | None,
    error: type[BridgeError],
    sentence: str,
) -> None:
    with pytest.raises(error) as raised:
        check(request_, vmodel, target)
    assert raised.value.message == sentence


@pytest.mark.parametrize(
    ("request_", "vmodel", "target"),
    [
        (asked(), None, TARGET),
        (asked(info=INFO), None, None),
        (asked(info=INFO), None, TARGET),
        (asked(expected_target="t"), None, TARGET),
        (asked(expected_target="a", owner="ksp"), STEADY, TARGET),
        (asked(owner="ksp", update_only=True), STEADY, TARGET),
        (asked(target="a", expected_target="x"), STEADY, TARGET),
        (asked(target="p", expected_target="x"), MOVING, TARGET),
        (asked(target="p", expected_target="p", force=True), MOVING, TARGET),
    ],
)
def test_what_passes(request_: SetVModel, vmodel: VModel | None, target: RegisteredModel | None) -> None:
    check(request_, vmodel, target)
