from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tritonclient.utils import triton_to_np_dtype

from model_repo_sync.runner.tensorflow_engine import dtypes
from model_repo_sync.runner.tensorflow_engine.dtypes import BY_NAME, DTYPES, UNSERVED_NAMES, DType
from tests.support import savedmodels

VARIABLE_SIZE = 0


def test_the_table_is_tensorflows() -> None:
    theirs = savedmodels.dtypes()
    assert theirs.keys() == DTYPES.keys() | UNSERVED_NAMES.keys()
    for number, dtype in DTYPES.items():
        enum_name, size = theirs[number]
        assert (number, dtype.enum_name) == (dtype.number, enum_name)
        assert dtype.itemsize == (VARIABLE_SIZE if dtype.is_string else size)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_wire_elements_have_the_bytes_of_the_element(dtype: DType) -> None:
    if dtype.is_string:
        assert dtype.config_type == "TYPE_STRING"
        return
    assert np.dtype(dtype.numpy).itemsize * dtype.multiplicity == dtype.itemsize
    assert dtype.config_type == f"TYPE_{dtype.triton}"
    if dtype.triton != "BF16":
        assert np.dtype(triton_to_np_dtype(dtype.triton)) == np.dtype(dtype.numpy)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(DTYPES) == 25


@pytest.mark.parametrize(
    ("number", "base", "name"),
    [
        (1, 1, "float"),
        (101, 1, "float_ref"),
        (14, 14, "bfloat16"),
        (20, 20, "resource"),
        (21, 21, "variant"),
        (107, 7, "string_ref"),
        (77, 77, "unknown dtype enum 77"),
    ],
)
def test_references_are_stripped_and_named(number: int, base: int, name: str) -> None:
    assert dtypes.base(number) == base
    assert dtypes.name(number) == name


def test_the_table_needs_no_numpy() -> None:
    program = "import sys; import model_repo_sync.runner.tensorflow_engine.dtypes; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
