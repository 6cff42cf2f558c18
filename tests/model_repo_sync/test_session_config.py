from __future__ import annotations

import pytest

from model_repo_sync import device
from model_repo_sync.session_config import session_config


@pytest.mark.parametrize(
    ("place", "settings", "expected"),
    [
        ("cpu", {}, "28ffffffffffffffffff01"),
        ("cpu", {"gpu_memory_fraction": 0.5}, "28ffffffffffffffffff01"),
        ("cpu", {"inter_op": 0}, ""),
        ("cpu", {"intra_op": 2, "inter_op": 3}, "10022803"),
        ("gpu", {}, "28ffffffffffffffffff0132022001"),
        ("gpu:1", {"gpu_memory_fraction": 0.5}, "28ffffffffffffffffff01320b09000000000000e03f2001"),
    ],
)
def test_fixed_bytes(place: str, settings: dict[str, float], expected: str) -> None:
    assert session_config(device.parse(place), **settings).hex() == expected  # type: ignore[arg-type]
