"""Removal of shared-memory files that killed processes left."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.triton import shared_memory_files


def test_only_the_prefix_is_removed(tmp_path: Path) -> None:
    for name in ("bridge_1_a", "bridge_1_b", "bridge_12_a", "xbridge_1_a", "bridge_1"):
        (tmp_path / name).touch()
    assert shared_memory_files.remove("bridge_1_", tmp_path) == ["bridge_1_a", "bridge_1_b"]
    assert {path.name for path in tmp_path.iterdir()} == {"bridge_12_a", "xbridge_1_a", "bridge_1"}


def test_a_file_that_cannot_be_removed_is_reported_and_the_rest_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bridge_1_a").mkdir()
    (tmp_path / "bridge_1_b").touch()
    assert shared_memory_files.remove("bridge_1_", tmp_path) == ["bridge_1_b"]
    assert "bridge_1_a stays" in caplog.text


def test_a_machine_without_shared_memory_has_nothing_to_remove(tmp_path: Path) -> None:
    assert shared_memory_files.remove("bridge_1_", tmp_path / "absent") == []


def test_an_empty_prefix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every process"):
        shared_memory_files.remove("", tmp_path)
