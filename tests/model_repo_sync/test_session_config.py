from __future__ import annotations

import pytest

from model_repo_sync import device
from model_repo_sync.protos.tensorflow import config_pb2
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


def test_what_a_given_configuration_sets_goes_first() -> None:
    given = config_pb2.ConfigProto(inter_op_parallelism_threads=3, allow_soft_placement=True)
    given.gpu_options.per_process_gpu_memory_fraction = 0.25
    gpu = device.parse("gpu:0")
    merged = config_pb2.ConfigProto.FromString(
        session_config(gpu, gpu_memory_fraction=0.5, intra_op=2, inter_op=4, base=given.SerializeToString())
    )
    assert merged.inter_op_parallelism_threads == 3
    assert merged.intra_op_parallelism_threads == 2
    assert merged.allow_soft_placement
    assert merged.gpu_options.allow_growth
    assert merged.gpu_options.per_process_gpu_memory_fraction == 0.25
