"""Our messages beside those of tensorflow, tensorflow_serving and tritonclient in one process, in any order."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

OURS = """
import bridge, model_repo_sync
from model_repo_sync.protos.tensorflow import config_pb2 as our_config, saved_model_pb2, tensor_pb2 as our_tensor
from model_repo_sync.protos.tensorflow_serving import predict_pb2 as our_predict, model_service_pb2
from model_repo_sync.protos.mmesh import model_mesh_pb2, model_runtime_pb2
"""
TENSORFLOW = "import tensorflow"
SERVING = """
from tensorflow_serving.apis import model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2
"""
TRITON = "import tritonclient.grpc, tritonclient.grpc.aio"
WELL_KNOWN = "from google.protobuf import any_pb2, wrappers_pb2"
HEALTH = "from grpc_health.v1 import health_pb2_grpc; from grpc_reflection.v1alpha import reflection_pb2_grpc"

EXCHANGE = """
theirs = predict_pb2.PredictRequest(output_filter=["y"])
theirs.model_spec.version.value = 3
theirs.inputs["x"].CopyFrom(tensorflow.make_tensor_proto([1.0, 2.0]))
ours = our_predict.PredictRequest.FromString(theirs.SerializeToString())
assert ours.inputs["x"].dtype == 1 and ours.model_spec.version.value == 3
assert predict_pb2.PredictRequest.FromString(ours.SerializeToString()) == theirs
"""

NO_TENSORFLOW = """
import importlib, pkgutil, sys
# The runner lives in Triton's stub, migrations in Alembic, and the native codec is a library for ctypes, no module.
SKIPPED = ("model_repo_sync.runner", "bridge.registry.migrations", "bridge.codec.native._")
for package in ("bridge", "model_repo_sync"):
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, package + "."):
        if not module.name.startswith(SKIPPED):
            importlib.import_module(module.name)
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"tensorflow", "tensorflow_serving"}, loaded
"""


def run(*statements: str) -> None:
    program = "\n".join(statements)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "order",
    [
        (OURS, TENSORFLOW, SERVING, TRITON),
        (TENSORFLOW, SERVING, TRITON, OURS),
        (TRITON, SERVING, OURS, TENSORFLOW),
        (TENSORFLOW, OURS, TRITON, SERVING),
    ],
    ids=["first", "last", "before tensorflow", "between"],
)
def test_with_tensorflow(order: tuple[str, ...]) -> None:
    run(*order, EXCHANGE)


@pytest.mark.parametrize("order", list(itertools.permutations((OURS, TRITON, f"{WELL_KNOWN}\n{HEALTH}"))))
def test_without_tensorflow(order: tuple[str, ...]) -> None:
    run(*order)


def test_default_pool_stays_free() -> None:
    run(
        OURS,
        "from google.protobuf import descriptor_pool",
        "try: descriptor_pool.Default().FindFileByName('tensorflow/tensor.proto')",
        "except KeyError: pass",
        "else: raise AssertionError",
    )


def test_no_module_of_ours_imports_tensorflow() -> None:
    """All but the runner, which Triton starts in a process of its own, and migrations, which Alembic runs."""
    run(NO_TENSORFLOW)
