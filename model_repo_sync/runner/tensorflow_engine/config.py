"""What the runner is told: Triton's arguments and the parameters of the model configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import dtypes
from .batching_parameters import BatchingParameters
from .errors import PlatformError

FORMAT = 1
"""Version of the parameter `runner` that this runner reads."""

PER_VERSION, PER_DEVICE = "per-version", "per-device"
"""Values of the parameter `processes`: where SavedModels run."""


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """`inputs` and `outputs` map graph tensor names (`x:0`) to TensorFlow's dtype numbers.

    `saved_model` is None for a probe, which serves nothing but the description of the runner. `session_config` holds a
    serialized tensorflow.ConfigProto. `device` is Triton's number of the GPU, None on the CPU. `batching` is None where
    every request runs by itself. `op_libraries` are files with custom ops. `shared` runs the SavedModel in the one
    process of its device, not in the runner's own.
    """

    saved_model: Path | None
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    tags: tuple[str, ...]
    session_config: bytes
    threads: int
    queue_size: int
    device: int | None
    batching: BatchingParameters | None
    op_libraries: tuple[str, ...]
    shared: bool


def parse(args: Mapping[str, str]) -> RunnerConfig:
    """Read Triton's arguments of `initialize`. Raises PlatformError, naming the parameter that cannot be read."""
    parameters = json.loads(args["model_config"]).get("parameters", {})
    runner = _json(parameters, "runner")
    if runner.get("format") != FORMAT:
        raise PlatformError(
            f"The model configuration has format {runner.get('format')} and this runner reads format {FORMAT}: "
            "install the runner and the bridge from one release"
        )
    try:
        return RunnerConfig(
            saved_model=None if runner.get("probe") else _saved_model(args),
            inputs=_dtypes(runner, "inputs"),
            outputs=_dtypes(runner, "outputs"),
            tags=tuple(runner.get("tags", ())),
            session_config=bytes.fromhex(_text(parameters, "session_config", "")),
            threads=max(1, int(_text(parameters, "threads", "4"))),
            queue_size=max(1, int(_text(parameters, "queue_size", "100"))),
            device=int(args["model_instance_device_id"]) if args.get("model_instance_kind") == "GPU" else None,
            batching=_batching(_text(parameters, "batching", "")),
            op_libraries=tuple(json.loads(_text(parameters, "op_libraries", "[]"))),
            shared=_is_shared(_text(parameters, "processes", PER_VERSION)),
        )
    except ValueError as error:
        raise PlatformError(f"A parameter of the model configuration cannot be read: {error}") from error


def _batching(text: str) -> BatchingParameters | None:
    return BatchingParameters.loads(text) if text else None


def _is_shared(processes: str) -> bool:
    if processes not in (PER_VERSION, PER_DEVICE):
        raise ValueError(f"processes is {processes!r}")
    return processes == PER_DEVICE


def _saved_model(args: Mapping[str, str]) -> Path:
    return Path(args["model_repository"]) / args["model_version"] / "model.savedmodel"


def _dtypes(runner: Mapping[str, Any], side: str) -> dict[str, int]:
    tensors: dict[str, int] = runner.get(side, {})
    for name, number in tensors.items():
        if number not in dtypes.DTYPES:
            raise PlatformError(f"The model configuration gives {name} the unserved type {dtypes.name(number)}")
    return tensors


def _json(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    text = _text(parameters, name, "")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise PlatformError(f"Parameter {name} of the model configuration is not JSON: {text!r}") from error
    if not isinstance(value, dict):
        raise PlatformError(f"Parameter {name} of the model configuration is not a JSON object: {text!r}")
    return value


def _text(parameters: Mapping[str, Any], name: str, default: str) -> str:
    return str(parameters.get(name, {}).get("string_value", default))
