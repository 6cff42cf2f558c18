from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from model_repo_sync import device, triton_config
from model_repo_sync.batching import Batching
from model_repo_sync.protos.tensorflow_serving.session_bundle_config_pb2 import BatchingParameters
from model_repo_sync.runner.tensorflow_engine import dtypes
from model_repo_sync.saved_model import SavedModelError, read_saved_model
from model_repo_sync.triton_config import ConfigError, RunnerOptions
from tests.model_repo_sync.builders import GraphBuilder, identity, write

NAME = "tfs.0123abcd.m.1"
EXPECTED = """\
name: "tfs.0123abcd.m.1"
input {
  name: "x:0"
  data_type: TYPE_FP32
  dims: -1
  optional: true
}
input {
  name: "bridge.noop"
  data_type: TYPE_UINT8
  dims: -1
  optional: true
}
output {
  name: "y:0"
  data_type: TYPE_FP32
  dims: -1
}
output {
  name: "bridge.runner"
  data_type: TYPE_STRING
  dims: -1
}
instance_group {
  count: 1
  kind: KIND_CPU
}
parameters {
  key: "fingerprint"
  value {
    string_value: "FINGERPRINT"
  }
}
parameters {
  key: "queue_size"
  value {
    string_value: "7"
  }
}
parameters {
  key: "runner"
  value {
    string_value: "{\\"format\\":1,\\"inputs\\":{\\"x:0\\":1},\\"outputs\\":{\\"y:0\\":1},\\"tags\\":[\\"serve\\"]}"
  }
}
parameters {
  key: "session_config"
  value {
    string_value: "28ffffffffffffffffff01"
  }
}
parameters {
  key: "threads"
  value {
    string_value: "3"
  }
}
backend: "tensorflow_runner"
"""


def parsed(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def generated(directory: Path, *graphs: GraphBuilder, options: RunnerOptions | None = None) -> Any:
    model = read_saved_model(str(write(directory, *graphs)))
    return parsed(triton_config.generate(NAME, model, options or RunnerOptions()))


def test_the_whole_text(tmp_path: Path) -> None:
    model = read_saved_model(str(write(tmp_path / "m")))
    text = triton_config.generate(NAME, model, RunnerOptions(threads=3, queue_size=7))
    assert parsed(text) == parsed(EXPECTED.replace("FINGERPRINT", model.fingerprint))
    assert triton_config.fingerprint(text) == model.fingerprint
    assert text == triton_config.generate(NAME, model, RunnerOptions(threads=3, queue_size=7))


def test_a_probe_declares_only_what_every_model_has() -> None:
    config = parsed(triton_config.probe("probe.0123abcd.n", RunnerOptions()))
    assert [tensor.name for tensor in config.input] == ["bridge.noop"]
    assert [tensor.name for tensor in config.output] == ["bridge.runner"]
    assert json.loads(config.parameters["runner"].string_value) == {"format": 1, "probe": True}


def test_tensors_that_signatures_share_are_declared_once_and_sorted(tmp_path: Path) -> None:
    builder = identity().placeholder("a", 7)
    builder.signature("s", {"first": ("x", 1), "second": ("x:0", 1), "text": ("a:0", 7)}, {"same": ("x:0", 1)})
    builder.signature("broken", {"z": ("nothing:0", 1)}, {"y": ("y:0", 1)})
    config = generated(tmp_path / "m", builder)
    assert [tensor.name for tensor in config.input] == ["a:0", "x:0", "bridge.noop"]
    assert [tensor.name for tensor in config.output] == ["x:0", "y:0", "bridge.runner"]
    runner = json.loads(config.parameters["runner"].string_value)
    assert (runner["inputs"], runner["outputs"]) == ({"a:0": 7, "x:0": 1}, {"x:0": 1, "y:0": 1})


@pytest.mark.parametrize("number", dtypes.DTYPES)
def test_every_dtype_has_a_type_that_triton_knows(tmp_path: Path, number: int) -> None:
    builder = GraphBuilder().placeholder("x", number).signature("s", {"x": ("x", number)}, {"y": ("x", number)})
    config = generated(tmp_path / "m", builder)
    known = model_config_pb2.DataType.Name(config.input[0].data_type)
    assert known == dtypes.DTYPES[number].config_type
    assert json.loads(config.parameters["runner"].string_value)["inputs"] == {"x:0": number}


@pytest.mark.parametrize(
    ("place", "kind", "gpus"),
    [("cpu", "KIND_CPU", []), ("gpu", "KIND_GPU", []), ("gpu:0", "KIND_GPU", [0]), ("gpu:1,3", "KIND_GPU", [1, 3])],
)
def test_the_device_is_explicit(tmp_path: Path, place: str, kind: str, gpus: list[int]) -> None:
    options = RunnerOptions(device=device.parse(place), gpu_memory_fraction=0.5)
    config = generated(tmp_path / "m", options=options)
    [group] = config.instance_group
    assert model_config_pb2.ModelInstanceGroup.Kind.Name(group.kind) == kind
    assert (group.count, list(group.gpus)) == (1, gpus)
    gpu_options = "320b09000000000000e03f2001" if kind == "KIND_GPU" else ""
    assert config.parameters["session_config"].string_value == "28ffffffffffffffffff01" + gpu_options


def test_an_unresolved_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="'auto' was not resolved"):
        triton_config.probe("p", RunnerOptions(device=device.parse("auto")))


def test_batching_and_op_libraries_are_told_where_they_are_wanted(tmp_path: Path) -> None:
    assert not {"batching", "op_libraries", "processes"} & set(generated(tmp_path / "plain").parameters)
    message = BatchingParameters()
    message.max_batch_size.value = 4
    options = RunnerOptions(batching=Batching(message), op_libraries=("/ops/a.so",), processes="per-device")
    parameters = generated(tmp_path / "m", options=options).parameters
    assert json.loads(parameters["op_libraries"].string_value) == ["/ops/a.so"]
    assert parameters["processes"].string_value == "per-device"
    assert json.loads(parameters["batching"].string_value)["max_batch_size"] == 4


def test_batching_parameters_that_cannot_be_used_are_the_models_fault(tmp_path: Path) -> None:
    options = RunnerOptions(batching=Batching(BatchingParameters(allowed_batch_sizes=[8])))
    with pytest.raises(SavedModelError, match="Last entry in allowed_batch_sizes must match max_batch_size"):
        generated(tmp_path / "m", options=options)


def test_a_probe_is_not_batched() -> None:
    options = RunnerOptions(batching=Batching(BatchingParameters(allowed_batch_sizes=[8])), op_libraries=("/a.so",))
    assert not {"batching", "op_libraries"} & set(parsed(triton_config.probe("p", options)).parameters)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("batching", '{"size": 1}', "damaged parameter: the parameter batching has the unknown field size"),
        ("op_libraries", "a.so", "damaged parameter"),
        ("processes", "one", "has 'one' as processes instead of per-version or per-device"),
    ],
)
def test_validation_of_optional_parameters(key: str, value: str, fault: str) -> None:
    config = parsed(EXPECTED)
    config.parameters[key].string_value = value
    with pytest.raises(ConfigError, match=fault):
        triton_config.validate(text_format.MessageToString(config), NAME)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('name: "tfs.0123abcd.m.1"', 'name: "other"', "is named 'other' instead of 'tfs.0123abcd.m.1'"),
        ('"tensorflow_runner"', '"python"', "asks for the backend 'python'"),
        ("instance_group {", "nonsense {", "is no ModelConfig: .*nonsense"),
        ("dims: -1", "dims: 2", "does not declare input 'x:0' with the one dimension -1"),
        ("dims: -1", "dims: -1 dims: -1", "does not declare input 'x:0' with the one dimension -1"),
        ('"bridge.noop"', '"x:0"', "declares an input twice"),
        ('"bridge.noop"', '"z:0"', "lacks the input 'bridge.noop'"),
        ('"bridge.runner"', '"z:0"', "lacks the output 'bridge.runner'"),
        ("optional: true", "", "declares an input that is not optional"),
        ("data_type: TYPE_FP32", "", "gives input 'x:0' no data type"),
        (
            "instance_group {",
            "dynamic_batching { priority_levels: 2 } instance_group {",
            "options of dynamic_batching, which stall",
        ),
        (
            "instance_group {",
            "dynamic_batching { default_queue_policy { max_queue_size: 7 } } instance_group {",
            "options of dynamic_batching, which stall",
        ),
        ("instance_group {", "sequence_batching { } instance_group {", "asks for a scheduler of Triton's"),
        ('key: "threads"', 'key: "thread"', "lacks the parameter threads"),
        ('string_value: "3"', 'string_value: "0"', "has '0' as threads"),
        ('string_value: "28f', 'string_value: "x8f', "damaged parameter"),
        ("format", "formal", "has a runner parameter of another format than 1"),
        ('{\\"format', "{format", "damaged parameter"),
        ('backend: "tensorflow_runner"', 'backend: "tensorflow_runner" max_batch_size: 4', "sets max_batch_size"),
    ],
)
def test_validation(old: str, new: str, fault: str) -> None:
    text = EXPECTED.replace(old, new, 1)
    assert text != EXPECTED
    with pytest.raises(ConfigError, match=fault):
        triton_config.validate(text, NAME)


def test_instances_must_be_told() -> None:
    config = parsed(EXPECTED)
    config.ClearField("instance_group")
    with pytest.raises(ConfigError, match="has no instance_group"):
        triton_config.validate(text_format.MessageToString(config), NAME)


def test_the_scheduler_of_earlier_releases_is_known() -> None:
    config = parsed(EXPECTED)
    config.dynamic_batching.SetInParent()
    triton_config.validate(text_format.MessageToString(config), NAME)
