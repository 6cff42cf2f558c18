from __future__ import annotations

import pytest

from model_repo_sync.runner.tensorflow_engine import device
from model_repo_sync.runner.tensorflow_engine.errors import PlatformError


@pytest.mark.parametrize(
    ("number", "before", "after"),
    [
        (None, None, "-1"),
        (None, "0,1", "-1"),
        (0, None, "0"),
        (3, None, "3"),
        (3, "", "3"),
        (0, "2,5", "2"),
        (1, "2, 5", "5"),
        (1, "GPU-aaaa,MIG-bbbb", "MIG-bbbb"),
    ],
)
def test_tensorflow_sees_the_one_device_of_triton(number: int | None, before: str | None, after: str) -> None:
    environment = {} if before is None else {"CUDA_VISIBLE_DEVICES": before}
    device.restrict(number, environment)
    assert environment == {"CUDA_VISIBLE_DEVICES": after}


def test_a_device_beyond_the_visible_ones_is_refused() -> None:
    with pytest.raises(PlatformError, match="placed this model on GPU 2, but CUDA_VISIBLE_DEVICES is 0,1"):
        device.restrict(2, {"CUDA_VISIBLE_DEVICES": "0,1"})


def test_on_the_cpu_no_driver_is_looked_for() -> None:
    given = bytes.fromhex("28ffffffffffffffffff01")
    assert device.session_config(None, given).hex() == "28ffffffffffffffffff010a070a034750551000"
    assert device.session_config(0, given) == given


def test_a_missing_gpu_is_one_sentence() -> None:
    device.require(None, ["CPU"], "2.21.0")
    device.require(1, ["CPU", "GPU"], "2.21.0")
    with pytest.raises(PlatformError, match=r"on GPU 1, but TensorFlow 2\.21\.0 finds no GPU it can use: install"):
        device.require(1, ["CPU"], "2.21.0")
