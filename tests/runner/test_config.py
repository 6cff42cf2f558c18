from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine import config
from model_repo_sync.runner.tensorflow_engine.batching_parameters import BatchingParameters
from model_repo_sync.runner.tensorflow_engine.errors import PlatformError

RUNNER = {"format": 1, "inputs": {"x:0": 1}, "outputs": {"y:0": 7}, "tags": ["serve"]}


def arguments(runner: Any = RUNNER, kind: str = "CPU", **parameters: str) -> dict[str, str]:
    text = runner if isinstance(runner, str) else json.dumps(runner)
    values = {name: {"string_value": value} for name, value in {"runner": text, **parameters}.items()}
    return {
        "model_config": json.dumps({"parameters": values}),
        "model_repository": "/repository/tfs.00000000.m.1",
        "model_version": "1",
        "model_instance_kind": kind,
        "model_instance_device_id": "3",
    }


def test_everything_is_read() -> None:
    parsed = config.parse(arguments(session_config="28ffffffffffffffffff01", threads="2", queue_size="9"))
    assert parsed.saved_model == Path("/repository/tfs.00000000.m.1/1/model.savedmodel")
    assert (parsed.inputs, parsed.outputs, parsed.tags) == ({"x:0": 1}, {"y:0": 7}, ("serve",))
    assert parsed.session_config == b"\x28" + b"\xff" * 9 + b"\x01"
    assert (parsed.threads, parsed.queue_size, parsed.device) == (2, 9, None)


def test_batching_and_op_libraries_are_read_where_they_are_given() -> None:
    plain = config.parse(arguments())
    assert (plain.batching, plain.op_libraries) == (None, ())
    parameters = BatchingParameters(max_batch_size=4, allowed_batch_sizes=(2, 4))
    parsed = config.parse(arguments(batching=parameters.dumps(), op_libraries='["/ops/a.so", "/ops/b.so"]'))
    assert (parsed.batching, parsed.op_libraries) == (parameters, ("/ops/a.so", "/ops/b.so"))


def test_saved_models_run_in_the_runner_unless_told_otherwise() -> None:
    assert not config.parse(arguments()).shared
    assert not config.parse(arguments(processes="per-version")).shared
    assert config.parse(arguments(processes="per-device")).shared


def test_a_gpu_is_named_by_triton() -> None:
    assert config.parse(arguments(kind="GPU")).device == 3


def test_a_probe_has_no_saved_model() -> None:
    assert config.parse(arguments({"format": 1, "probe": True})).saved_model is None


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (arguments({"format": 2}), "has format 2 and this runner reads format 1"),
        (arguments("nonsense"), "Parameter runner of the model configuration is not JSON: 'nonsense'"),
        (arguments("[]"), r"Parameter runner of the model configuration is not a JSON object: '\[\]'"),
        (
            arguments({**RUNNER, "inputs": {"h:0": 20}}),
            "gives h:0 the unserved type resource",
        ),
        (arguments(session_config="xyz"), "A parameter of the model configuration cannot be read: non-hexadecimal"),
        (
            arguments(batching='{"max_batch": 1}'),
            "cannot be read: the parameter batching has the unknown field max_batch",
        ),
        (arguments(op_libraries="a.so"), "A parameter of the model configuration cannot be read: Expecting value"),
        (arguments(processes="one"), "A parameter of the model configuration cannot be read: processes is 'one'"),
        (arguments(threads="many"), "A parameter of the model configuration cannot be read: .*'many'"),
    ],
)
def test_what_cannot_be_read_is_named(args: dict[str, str], sentence: str) -> None:
    with pytest.raises(PlatformError, match=sentence):
        config.parse(args)
