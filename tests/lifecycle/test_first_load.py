from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.control_plane import ControlPlane
from bridge.lifecycle.first_load import wait_for_models
from bridge.serving.routes import VersionState, VersionStatus

AVAILABLE = VersionStatus(1, VersionState.AVAILABLE, Code.OK, "")
Verdicts = Mapping[str, VersionStatus | None]


def ended(version: int, code: Code, message: str) -> VersionStatus:
    return VersionStatus(version, VersionState.END, code, message)


class Plane:
    """A control plane that tells one verdict after the other, each after a change."""

    def __init__(self, *verdicts: Verdicts) -> None:
        self._verdicts = list(verdicts)

    def progress(self) -> asyncio.Event:
        event = asyncio.Event()
        event.set()
        return event

    def verdicts(self) -> Verdicts:
        return self._verdicts.pop(0)


async def wait(*verdicts: Verdicts) -> None:
    await wait_for_models(cast(ControlPlane, Plane(*verdicts)))


async def test_it_waits_for_the_last_model() -> None:
    await wait({"a": None, "b": None}, {"a": AVAILABLE, "b": None}, {"a": AVAILABLE, "b": AVAILABLE})


async def test_nothing_to_load_is_ready_at_once() -> None:
    await wait({})


async def test_an_error_is_told_when_every_model_is_decided() -> None:
    lost = ended(7, Code.DATA_LOSS, "Can't parse it")
    with pytest.raises(BridgeError) as caught:
        await wait({"a": lost, "b": None}, {"a": lost, "b": AVAILABLE})
    assert caught.value.code is Code.UNKNOWN
    assert caught.value.message == (
        "1 servable(s) did not become available: {{{name: a version: 7} due to error: DATA_LOSS: Can't parse it}, }"
    )


async def test_every_failed_model_is_named() -> None:
    with pytest.raises(BridgeError) as caught:
        await wait({"a": ended(1, Code.NOT_FOUND, "x"), "b": AVAILABLE, "c": ended(2, Code.INVALID_ARGUMENT, "y")})
    assert caught.value.message == (
        "2 servable(s) did not become available: {{{name: a version: 1} due to error: NOT_FOUND: x}, "
        "{{name: c version: 2} due to error: INVALID_ARGUMENT: y}, }"
    )
