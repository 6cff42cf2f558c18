"""Exit codes and streams of the drop-in command for command lines that print or fail before anything is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.model_server import run

USAGE = "usage: tensorflow_model_server\nFlags:\n"
ONE = "--model_base_path={tmp}/model"


def files(directory: Path) -> None:
    (directory / "models").write_text(
        'model_config_list { config { name: "a" base_path: "/a" model_platform: "none" } }'
    )
    (directory / "bad").write_text("improperly formatted file\n")
    (directory / "labels").write_text(
        'model_config_list { config { name: "a" base_path: "/a" model_platform: "tensorflow" '
        'version_labels { key: "stable" value: 1 } } }'
    )


@pytest.mark.parametrize(
    ("flags", "log"),
    [
        (["--help"], ""),
        (["--port=1", "--help"], ""),
        (["--enable_batching=1"], "Couldn't interpret value =1 for flag enable_batching."),
        (["--enable_batching=True"], "Couldn't interpret value =True for flag enable_batching."),
        (["--port=abc"], "Couldn't interpret value abc for flag port."),
        (["--port="], "Couldn't interpret value  for flag port."),
        (
            ["--per_process_gpu_memory_fraction=x"],
            "Couldn't interpret value x for flag per_process_gpu_memory_fraction.",
        ),
    ],
)
def test_usage_and_255(tmp_path: Path, flags: list[str], log: str) -> None:
    done = run(tmp_path, *flags)
    assert done.returncode == 255
    assert done.stdout.startswith(USAGE)
    assert done.stdout.count("\n\t--") == done.stdout.count("\n") - 2
    assert log in done.stderr


def test_version_goes_before_everything_else(tmp_path: Path) -> None:
    done = run(tmp_path, "--version", "--port=0", "--nonsense")
    assert done.returncode == 0
    assert re.fullmatch(
        r"TensorFlow ModelServer: \d+\.\d+\.\d+\S*\nTensorFlow Library: \d+\.\d+\.\d+\S*\n", done.stdout
    )


def test_a_bad_variable_is_told_like_a_bad_flag(tmp_path: Path) -> None:
    done = run(tmp_path, environment={"BRIDGE_PORT": "x"})
    assert done.returncode == 255
    assert done.stdout.startswith(USAGE)
    assert "Couldn't interpret value x for BRIDGE_PORT." in done.stderr


INVALID = "INVALID_ARGUMENT: "
FAILURES = [
    # Both forms at once, as TF Serving's image gives them: the file wins, so its fault is the one that is told.
    (
        ["--model_config_file={tmp}/models", "--model_name=b", "--model_base_path=relative"],
        INVALID + "Model a requests unsupported platform none",
    ),
    (["--model_config_file={tmp}/none"], "NOT_FOUND: {tmp}/none; No such file or directory"),
    (
        ["--model_config_file={tmp}/labels"],
        "FAILED_PRECONDITION: Request to assign label to version 1 of model a, "
        "which is not currently available for inference",
    ),
    (
        [ONE, "--enable_batching", "--batching_parameters_file={tmp}/bad"],
        INVALID + "Invalid protobuf file: '{tmp}/bad'",
    ),
    (
        [ONE, "--grpc_channel_arguments=grpc.max_concurrent_streams"],
        INVALID
        + "--grpc_channel_arguments=grpc.max_concurrent_streams: 'grpc.max_concurrent_streams' is not KEY=VALUE",
    ),
]
"""One of each kind; tests/tfserving/test_start_check.py has them all."""


@pytest.mark.parametrize(("flags", "error"), FAILURES)
def test_failures_go_to_stdout_with_255(tmp_path: Path, flags: list[str], error: str) -> None:
    files(tmp_path)
    done = run(tmp_path, *(flag.format(tmp=tmp_path) for flag in flags))
    assert done.returncode == 255
    assert done.stdout == f"Failed to start server. Error: {error.format(tmp=tmp_path)}\n"
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_place_of_a_typo_is_in_the_log(tmp_path: Path) -> None:
    files(tmp_path)
    done = run(tmp_path, f"--model_config_file={tmp_path}/bad")
    assert "Error parsing text-format tensorflow.serving.ModelServerConfig: 1:1: " in done.stderr


def test_what_is_left_over_is_named_and_the_start_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, "--first=1", "--port=0", "second")
    assert done.returncode == 255
    unknown, usage = done.stdout.split("\n", 1)
    assert unknown == "unknown argument: --first=1"
    assert usage.startswith(USAGE)
    assert done.stdout.splitlines()[-1].startswith("Failed to start server. Error: INVALID_ARGUMENT: At least one of")


def test_flags_without_effect_say_so(tmp_path: Path) -> None:
    done = run(tmp_path, "--enable_profiler", "--grpc_max_threads=3", "--port=0")
    assert "--enable_profiler has no effect here: " in done.stderr
    assert "--grpc_max_threads has no effect here: " in done.stderr
    assert "--num_tflite_pools" not in done.stderr
