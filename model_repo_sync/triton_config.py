"""The config.pbtxt of a model that the runner serves.

Every tensor is declared flat, `dims: [-1]`, because Triton checks ranks and TF Serving does not; the true shape travels
beside it. Inputs are the graph tensors that some signature feeds, outputs those that some signature fetches, so all
signatures share one session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from model_repo_sync.batching import Batching
from model_repo_sync.device import CPU, Device, DeviceKind
from model_repo_sync.runner.tensorflow_engine import dtypes
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.runner.tensorflow_engine.config import PER_DEVICE, PER_VERSION
from model_repo_sync.saved_model import SavedModel
from model_repo_sync.session_config import CALLER_THREAD, session_config

BACKEND = "tensorflow_runner"
PROCESSES = (PER_VERSION, PER_DEVICE)
"""Values of RunnerOptions.processes."""
NOOP_INPUT = "bridge.noop"
"""Always declared: Triton wants at least one input, and some signatures have none."""
RUNNER_OUTPUT = "bridge.runner"
"""Always declared: a request for it alone asks the runner who it is."""
FORMAT = 1
"""Version of the `runner` parameter."""

_PARAMETERS = frozenset({"runner", "session_config", "threads", "queue_size", "fingerprint"})


class ConfigError(Exception):
    """A model configuration that Triton or the runner would not take, in one sentence."""


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """How a model runs.

    `threads` bounds the requests that run at once in one model when its runs are slow, `queue_size` those that wait.
    `gpu_memory_fraction` is the share of a GPU's memory that one process may take, 0 for no cap. `intra_op` and
    `inter_op` are TensorFlow's parallelism settings; 0 lets it choose, a negative `inter_op` uses the caller's thread.
    `session` is a serialized tensorflow.ConfigProto whose fields go before these. Without `batching` every request runs
    by itself. `op_libraries` are files with custom ops, as the runner sees them. `processes` is where SavedModels run:
    each in a process of its own, or all of a device in one.
    """

    threads: int = 4
    queue_size: int = 1000
    device: Device = CPU
    gpu_memory_fraction: float = 0.0
    intra_op: int = 0
    inter_op: int = CALLER_THREAD
    session: bytes = b""
    batching: Batching | None = None
    op_libraries: tuple[str, ...] = ()
    processes: str = PER_VERSION


def generate(name: str, saved_model: SavedModel, options: RunnerOptions) -> str:
    """The text of config.pbtxt for `saved_model` as the Triton model `name`.

    Raises ConfigError, and SavedModelError for batching parameters that cannot be used.
    """
    inputs, outputs = _tensors(saved_model)
    runner = {"format": FORMAT, "inputs": inputs, "outputs": outputs, "tags": list(saved_model.tags)}
    parameters = _parameters(runner, options, saved_model.fingerprint)
    batching = options.batching.of(saved_model) if options.batching else None
    if batching is not None:
        parameters["batching"] = batching.dumps()
    if options.processes != PER_VERSION:
        parameters["processes"] = options.processes
    if options.op_libraries:
        parameters["op_libraries"] = json.dumps(options.op_libraries)
    return _text(name, inputs, outputs, parameters, options.device)


def probe(name: str, options: RunnerOptions) -> str:
    """The text of config.pbtxt for a model without a SavedModel, which only answers who the runner is."""
    return _text(name, {}, {}, _parameters({"format": FORMAT, "probe": True}, options, ""), options.device)


def validate(text: str, name: str) -> None:
    """Raises ConfigError unless `text` is a configuration that this module could have written for `name`.

    Triton keeps its reasons for refusing a configuration to its log, so they are found before it is asked.
    """
    config = _parse(text)
    _require(config.name == name, f"is named {config.name!r} instead of {name!r}")
    _require(config.backend == BACKEND, f"asks for the backend {config.backend!r} instead of {BACKEND!r}")
    _require(config.max_batch_size == 0, "sets max_batch_size")
    _require(len(config.instance_group) > 0, "has no instance_group")
    _require(config.WhichOneof("scheduling_choice") in (None, "dynamic_batching"), "asks for a scheduler of Triton's")
    _require(not config.dynamic_batching.ListFields(), "sets options of dynamic_batching, which stall Triton's queue")
    _validate_tensors(config)
    _validate_parameters(config)


def fingerprint(text: str) -> str:
    """The fingerprint of the SavedModel for which the configuration was made, empty for none. Raises ConfigError."""
    config = _parse(text)
    return str(config.parameters["fingerprint"].string_value) if "fingerprint" in config.parameters else ""


def _tensors(saved_model: SavedModel) -> tuple[dict[str, int], dict[str, int]]:
    served = saved_model.served()
    inputs = {spec.tensor: spec.dtype for signature in served for spec in signature.inputs}
    outputs = {spec.tensor: spec.dtype for signature in served for spec in signature.outputs}
    return dict(sorted(inputs.items())), dict(sorted(outputs.items()))


def _text(
    name: str,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    parameters: Mapping[str, str],
    device: Device,
) -> str:
    config = model_config_pb2.ModelConfig(name=name, backend=BACKEND, max_batch_size=0)
    for tensor, data_type in [*_data_types(inputs), (NOOP_INPUT, "TYPE_UINT8")]:
        config.input.add(name=tensor, data_type=data_type, dims=[-1], optional=True)
    for tensor, data_type in [*_data_types(outputs), (RUNNER_OUTPUT, "TYPE_STRING")]:
        config.output.add(name=tensor, data_type=data_type, dims=[-1])
    config.instance_group.add(**_instance_group(device))
    # No dynamic_batching: its thread adds 30 us to every request. All that it would do here is to drop requests whose
    # clients are gone, which wait in Triton only while runs are short; the bridge and the runner bound the queue.
    for key, value in parameters.items():
        config.parameters[key].string_value = value
    text: str = text_format.MessageToString(config)
    validate(text, name)
    return text


def _data_types(tensors: Mapping[str, int]) -> Iterable[tuple[str, str]]:
    return [(tensor, dtypes.DTYPES[dtype].config_type) for tensor, dtype in tensors.items()]


def _instance_group(device: Device) -> dict[str, Any]:
    if device.kind is DeviceKind.AUTO:
        raise ConfigError("The device 'auto' was not resolved to cpu or gpu.")
    group = model_config_pb2.ModelInstanceGroup
    if device.kind is DeviceKind.CPU:
        return {"count": 1, "kind": group.KIND_CPU}
    return {"count": 1, "kind": group.KIND_GPU, "gpus": device.gpus}


def _parameters(runner: Mapping[str, Any], options: RunnerOptions, source: str) -> dict[str, str]:
    session = session_config(
        options.device,
        gpu_memory_fraction=options.gpu_memory_fraction,
        intra_op=options.intra_op,
        inter_op=options.inter_op,
        base=options.session,
    )
    return {
        "runner": json.dumps(runner, separators=(",", ":"), sort_keys=True),
        "session_config": session.hex(),
        "threads": str(options.threads),
        "queue_size": str(options.queue_size),
        "fingerprint": source,
    }


def _parse(text: str) -> Any:
    try:
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise ConfigError(f"The model configuration is no ModelConfig: {error}.") from error


def _validate_tensors(config: Any) -> None:
    for role, tensors in (("input", config.input), ("output", config.output)):
        names = [tensor.name for tensor in tensors]
        _require(len(names) == len(set(names)), f"declares an {role} twice")
        for tensor in tensors:
            _require(list(tensor.dims) == [-1], f"does not declare {role} {tensor.name!r} with the one dimension -1")
            _require(tensor.data_type != model_config_pb2.TYPE_INVALID, f"gives {role} {tensor.name!r} no data type")
    _require(all(tensor.optional for tensor in config.input), "declares an input that is not optional")
    _require(any(tensor.name == NOOP_INPUT for tensor in config.input), f"lacks the input {NOOP_INPUT!r}")
    _require(any(tensor.name == RUNNER_OUTPUT for tensor in config.output), f"lacks the output {RUNNER_OUTPUT!r}")


def _validate_parameters(config: Any) -> None:
    missing = sorted(_PARAMETERS - set(config.parameters))
    _require(not missing, f"lacks the parameter {', '.join(missing)}")
    for key in ("threads", "queue_size"):
        value = config.parameters[key].string_value
        _require(value.isdecimal() and int(value) > 0, f"has {value!r} as {key}, which is no positive number")
    if "processes" in config.parameters:
        value = config.parameters["processes"].string_value
        _require(value in PROCESSES, f"has {value!r} as processes instead of {' or '.join(PROCESSES)}")
    try:
        runner = json.loads(config.parameters["runner"].string_value)
        bytes.fromhex(config.parameters["session_config"].string_value)
        if "batching" in config.parameters:
            BatchingParameters.loads(config.parameters["batching"].string_value)
        if "op_libraries" in config.parameters:
            json.loads(config.parameters["op_libraries"].string_value)
    except ValueError as error:
        raise ConfigError(f"The model configuration has a damaged parameter: {error}.") from error
    known = isinstance(runner, dict) and runner.get("format") == FORMAT
    _require(known, f"has a runner parameter of another format than {FORMAT}")


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise ConfigError(f"The model configuration {fault}.")
