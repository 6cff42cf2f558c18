"""Names of engine processes, and who may be at the other end."""

from __future__ import annotations

import os
import socket

import pytest

from model_repo_sync.runner.tensorflow_engine.engine_address import address, is_own_peer
from model_repo_sync.runner.tensorflow_engine.errors import PlatformError

NO_PROCESS = 2**22 + 1


def test_one_name_for_each_triton_and_device() -> None:
    own, parent = os.getpid(), os.getppid()
    names = {address(process, device) for process in (own, parent) for device in (None, 0, 1)}
    assert len(names) == 6
    assert address(own, None) == address(own, None)
    assert all(name.startswith("\0tensorflow_runner.") and len(name) < 108 for name in names)


def test_a_triton_that_is_gone() -> None:
    with pytest.raises(PlatformError, match=f"process {NO_PROCESS} of this runner's Triton cannot be seen"):
        address(NO_PROCESS, None)


def test_the_own_user_is_let_in() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert is_own_peer(left)
