"""SavedModels that TensorFlow wrote, read without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_repo_sync import triton_config
from model_repo_sync.runner.tensorflow_engine import dtypes
from model_repo_sync.saved_model import SavedModelError, Signature, read_saved_model
from model_repo_sync.sources import scan_base_path
from model_repo_sync.triton_config import RunnerOptions
from tests.support import savedmodels

pytestmark = pytest.mark.integration

STATEFUL = {
    "half_plus_two": False,
    "wrong_tensor_info": False,
    "counter": True,
    "shared_state": True,
    "dtypes": False,
    "arithmetic": False,
    "strings": True,
    "declared_one": False,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(params=STATEFUL)
def directory(request: pytest.FixtureRequest, models: Path) -> Path:
    path = models / request.param / "1"
    return path if path.exists() else savedmodels.make(request.param, path)


def as_tensorflow_sees(signature: Signature) -> dict[str, object]:
    return {
        "inputs": {spec.alias: (spec.tensor, spec.dtype, spec.declared_dtype) for spec in signature.inputs},
        "outputs": {spec.alias: (spec.tensor, spec.dtype, spec.declared_dtype) for spec in signature.outputs},
        "method": signature.method_name,
    }


def test_signatures_and_graph_dtypes_are_tensorflows(directory: Path) -> None:
    expected = savedmodels.signatures(directory)
    for signature in expected.values():
        for role in ("inputs", "outputs"):
            signature[role] = {
                alias: (tensor, dtypes.base(graph), declared)
                for alias, (tensor, graph, declared) in signature[role].items()
            }
    model = read_saved_model(str(directory))
    assert {name: as_tensorflow_sees(signature) for name, signature in model.signatures.items()} == expected
    triton_config.generate("any", model, RunnerOptions())


def test_statefulness(directory: Path) -> None:
    assert read_saved_model(str(directory)).stateful is STATEFUL[directory.parent.name]


def test_the_version_is_whole_until_its_variables_are_missing(directory: Path) -> None:
    assert len(scan_base_path(str(directory.parent)).versions) == 1
    variables = directory / "variables"
    graph = (directory / "saved_model.pb").read_bytes()
    if not variables.exists() or not any(op in graph for op in (b"VarHandleOp", b"VariableV2")):
        return
    moved = variables.rename(directory / "moved")
    try:
        [problem] = scan_base_path(str(directory.parent)).problems
    finally:
        moved.rename(variables)
    assert problem.sentence == f"{directory} is not offered: it lacks variables/variables.index."


def test_a_missing_tag_is_told_as_tensorflow_tells_it(models: Path) -> None:
    path = models / "half_plus_two" / "1"
    if not path.exists():
        savedmodels.make("half_plus_two", path)
    with pytest.raises(SavedModelError, match=r"matching supplied tags: { train }"):
        read_saved_model(str(path), ("train",))
