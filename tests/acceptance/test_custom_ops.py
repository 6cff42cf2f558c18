"""A server whose runners load an op library, and one whose do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.errors import Code
from tests.acceptance.conftest import Start
from tests.support import custom_op, savedmodels
from tests.support.official_client import OfficialClient

pytestmark = pytest.mark.integration


def test_the_flag_brings_the_ops_of_a_library(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    library = custom_op.library()
    savedmodels.make("custom_op", tmp_path / "custom" / "1", library=str(library))
    flags = ("--model_name=custom", f"--model_base_path={tmp_path}/custom", "--max_num_load_retries=0")
    server = start(*flags, f"--op_libraries={library}")
    assert client.predict(server.grpc, [1.0, -2.0], name="custom")["outputs"]["y"]["values"] == [-1.0, 2.0]

    without = start(*flags, name="without")
    [row] = client.ask(without.grpc, "status", spec={"name": "custom"})["rows"]
    assert row[:3] == [1, 50, Code.NOT_FOUND]
    assert row[3].startswith("Op type not registered 'BridgeTestNegate'")


def test_a_missing_library_keeps_versions_loading(start: Start, tmp_path: Path) -> None:
    """It is the platform's fault, so it counts as no try and is told by the log."""
    savedmodels.half_plus_two(tmp_path / "numbered", 1)
    server = start(f"--op_libraries={tmp_path}/missing.so", ready=False)
    server.wait_for_log(f"The op library {tmp_path}/missing.so cannot be loaded")
    assert server.states("numbered") == {1: "LOADING"}
