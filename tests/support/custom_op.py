"""The library with one custom op that SavedModels of the kind `custom_op` need."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("negate_op.c")


@functools.cache
def library() -> Path:
    """`negate_op.c`, compiled against the headers of the tensorflow package. Skips the test without a C compiler.

    One file for all tests, since TensorFlow takes an op only once in a process.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    spec = importlib.util.find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    headers = Path(spec.origin).parent / "include"
    directory = tempfile.mkdtemp(prefix="custom-op-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    result = Path(directory, "negate_op.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", f"-I{headers}", "-o", result, SOURCE], check=True)
    return result
