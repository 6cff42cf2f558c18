"""Types, layouts and configurations. This machine's Triton has no onnx, pytorch or tensorrt backend: what is written
for those is held against fixed texts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from bridge.registry.records import ModelInfo
from model_repo_sync import model_types
from model_repo_sync.model_types import ModelTypeError
from model_repo_sync.prepared_model import PreparedModel
from model_repo_sync.storage import Storage, StorageOptions

NAME = "mm.0123abcd.m.1"
SCHEMA = '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], "outputs": []}'


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(StorageOptions(model_root=str(tmp_path / "models"), cache=str(tmp_path / "cache")))


def lay_out(directory: Path, *files: str) -> None:
    for file in files:
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text({"config.pbtxt": CONFIG, "s.json": SCHEMA}.get(path.name, file))


def info(type: str, path: str, **key: Any) -> ModelInfo:
    return ModelInfo(type, path, json.dumps(key) if key else "")


CONFIG = 'name: "other" backend: "python" max_batch_size: 4 input { name: "a" data_type: TYPE_BOOL dims: 1 }'

KINDS = [
    ("tensorflow", {}, "tensorflow"),
    ("tensorflow:2", {}, "tensorflow"),
    ("mt:tensorflow:2|pv:grpc-v2", {}, "tensorflow"),
    ("pv:grpc-v2|mt:ONNX", {}, "onnx"),
    ("rt:triton-2.x", {}, ""),
    ("rt:triton-2.x|tensorflow", {}, "tensorflow"),
    ("rt:triton-2.x", {"model_type": {"name": "pytorch", "version": "1"}}, "pytorch"),
    ("tensorflow", {"model_type": "triton"}, "triton"),
    ("mt:sklearn", {"model_type": "onnx:1"}, "onnx"),
]


@pytest.mark.parametrize(("type", "key", "kind"), KINDS)
def test_kinds(type: str, key: dict[str, Any], kind: str) -> None:
    assert model_types.kind(info(type, "p", **key)) == kind


@pytest.mark.parametrize(("key", "size"), [("", 0), ("opaque", 0), ('{"disk_size_bytes": 1000}', 1250)])
def test_predicted_size(key: str, size: int) -> None:
    assert model_types.predicted_size(ModelInfo("tensorflow", "p", key)) == size


SAVED_MODELS = [
    (["m/saved_model.pb"], 1, "m"),
    (["m/saved_model.pbtxt", "m/variables/variables.index"], 1, "m"),
    (
        ["m/1/saved_model.pb", "m/00000123/saved_model.pb", "m/assets.extra/tf_serving_warmup_requests"],
        123,
        "m/00000123",
    ),
    (["m/2/saved_model.pb", "m/10/readme"], 2, "m/2"),
    (["m/export/saved_model.pb"], 1, "m/export"),
    (["m/1/model.savedmodel/saved_model.pb", "m/config.pbtxt"], 1, "m/1/model.savedmodel"),
]


@pytest.mark.parametrize(("files", "version", "path"), SAVED_MODELS)
def test_saved_models(tmp_path: Path, storage: Storage, files: list[str], version: int, path: str) -> None:
    lay_out(tmp_path / "models", *files)
    with model_types.resolved(info("tensorflow", "m"), storage) as model:
        found = (model.kind, model.version, os.path.relpath(model.path, tmp_path / "models"))
    assert found == ("tensorflow", version, path)


LAYOUTS = [
    ("onnx", "onnxruntime", ["m"], {"1/model.onnx": "m"}),
    ("onnx", "onnxruntime", ["m/net.onnx"], {"1/model.onnx": "m/net.onnx"}),
    ("onnx", "onnxruntime", ["m/net.onnx", "m/_schema.json"], {"1/model.onnx": "m/net.onnx"}),
    (
        "onnx",
        "onnxruntime",
        ["m/model.onnx", "m/weights"],
        {"1/model.onnx/model.onnx": "m/model.onnx", "1/model.onnx/weights": "m/weights"},
    ),
    ("onnx", "onnxruntime", ["m/3/a.onnx", "m/00012/b.onnx"], {"12/model.onnx": "m/00012/b.onnx"}),
    ("pytorch", "pytorch", ["m"], {"1/model.pt": "m"}),
    ("pytorch", "pytorch", ["m/model.pt", "m/extra/e"], {"1/model.pt": "m/model.pt", "1/extra/e": "m/extra/e"}),
    ("tensorrt", "tensorrt", ["m/7/engine"], {"7/model.plan": "m/7/engine"}),
    ("tensorrt", "tensorrt", ["m/7/a", "m/7/b"], {"7/a": "m/7/a", "7/b": "m/7/b"}),
]


def prepared(storage: Storage, model: ModelInfo) -> PreparedModel:
    with model_types.resolved(model, storage) as resolved:
        return resolved.prepare(NAME)


def targets(model: PreparedModel, root: Path) -> dict[str, str]:
    return {name: os.path.relpath(path, root) for name, path in model.files.items()}


@pytest.mark.parametrize(("type", "backend", "files", "expected"), LAYOUTS)
def test_layouts(
    tmp_path: Path, storage: Storage, type: str, backend: str, files: list[str], expected: dict[str, str]
) -> None:
    lay_out(tmp_path / "models", *files)
    model = prepared(storage, info(type, "m"))
    assert targets(model, tmp_path / "models") == expected
    assert model.config == f'name: "{NAME}"\nbackend: "{backend}"\n'


@pytest.mark.parametrize("type", ["onnx", "pytorch", "tensorrt"])
def test_a_schema_is_written_into_the_configuration(tmp_path: Path, storage: Storage, type: str) -> None:
    lay_out(tmp_path / "models", "m/model", "schemas/s.json")
    model = prepared(storage, info(type, "m", schema_path="schemas/s.json"))
    tensors = 'input {\n  name: "x"\n  data_type: TYPE_FP32\n  dims: -1\n  dims: 3\n}\n'
    backend = {"onnx": "onnxruntime"}.get(type, type)
    assert model.config == f'name: "{NAME}"\n{tensors}backend: "{backend}"\n'


@pytest.mark.parametrize("type", ["triton", "onnx", "pytorch"])
def test_a_ready_directory_gets_its_name_and_canonical_versions(tmp_path: Path, storage: Storage, type: str) -> None:
    files = ["config.pbtxt", "00000012/model.py", "3/model.py", "labels.txt", "warmup/1/data", ".source"]
    lay_out(tmp_path / "models/m", *files)
    model = prepared(storage, info(type, "m"))
    config = text_format.Parse(CONFIG, model_config_pb2.ModelConfig())
    config.name = NAME
    assert text_format.Parse(model.config, model_config_pb2.ModelConfig()) == config
    assert targets(model, tmp_path / "models/m") == {
        "12/model.py": "00000012/model.py",
        "3/model.py": "3/model.py",
        "labels.txt": "labels.txt",
        "warmup/1/data": "warmup/1/data",
    }


REFUSED: list[tuple[ModelInfo, list[str], str, bool]] = [
    (info("pmml", "m"), [], "Models of type 'pmml' cannot be served here; known types: ", False),
    (info("rt:triton-2.x", "m"), [], "Models of type 'rt:triton-2.x' cannot be served here", False),
    (info("tensorflow", "m"), [], "There is no directory or file ROOT/m.", True),
    (info("tensorflow", "m"), ["m"], "ROOT/m is no directory, as a SavedModel has to be.", False),
    (info("tensorflow", "m"), ["m/x"], "There is no SavedModel in ROOT/m, nor in a version directory in it.", True),
    (info("triton", "m"), ["m/1/model.py"], "There is no config.pbtxt in ROOT/m.", True),
    (info("triton", "m"), ["m/config.pbtxt"], "ROOT/m has no version directory.", False),
    (info("triton", "m"), ["m/config.pbtxt", "m/1/a", "m/01/a"], "ROOT/m has version 1 twice.", False),
    (info("onnx", "m", schema_path="gone"), ["m"], "There is no directory or file ROOT/gone.", True),
    (info("onnx", "m", schema_path="m"), ["m"], "The schema m is no JSON: ", False),
    (info("onnx", "m", schema_path="d"), ["m", "d/f"], "The schema d cannot be read: Is a directory.", False),
    (info("onnx", "m", schema_path="../s.json"), ["m"], "The path '../s.json' leads out of --model_root=ROOT.", False),
]


@pytest.mark.parametrize(("model", "files", "sentence", "missing"), REFUSED)
def test_refusals(
    tmp_path: Path, storage: Storage, model: ModelInfo, files: list[str], sentence: str, missing: bool
) -> None:
    lay_out(tmp_path / "models", *files)
    with pytest.raises(ModelTypeError) as error:
        prepared(storage, model)
    assert str(error.value).replace(str(tmp_path / "models"), "ROOT").startswith(sentence)
    assert error.value.missing == missing


@pytest.mark.parametrize("text", ["nonsense", "max_batch_size: x", "\ud800"])
def test_a_damaged_configuration_is_named(tmp_path: Path, storage: Storage, text: str) -> None:
    lay_out(tmp_path / "models/m", "1/model.py")
    (tmp_path / "models/m/config.pbtxt").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ModelTypeError, match=r"config\.pbtxt is no model configuration: "):
        prepared(storage, info("triton", "m"))
