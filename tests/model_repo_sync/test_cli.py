from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from model_repo_sync import names, triton_config
from model_repo_sync.cli import main
from tests.model_repo_sync.builders import GraphBuilder, identity, write

DEPLOYMENT = "0123abcd"


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: str | Path, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    write(tmp_path / "base" / "00000123", identity().placeholder("s", 7).signature("t", {"s": ("s", 1)}, {}))
    return tmp_path / "base"


@pytest.mark.parametrize("command", ["", "scan", "inspect", "config", "sync", "clean"])
def test_every_command_explains_itself(command: str) -> None:
    result = run(*filter(None, [command]), "--help")
    assert "Usage:" in result.stdout


def test_scan(base_path: Path) -> None:
    assert run("scan", base_path).stdout == f"123\t{base_path}/00000123\n"
    (base_path / "124").mkdir()
    result = run("scan", base_path, code=1)
    assert result.stderr == f"{base_path}/124 is not offered: it has no saved_model.pb.\n"
    assert run_json("scan", base_path, code=1) == {
        "versions": [{"version": 123, "path": f"{base_path}/00000123"}],
        "problems": [{"path": f"{base_path}/124", "sentence": result.stderr.strip()}],
    }


def test_inspect(base_path: Path) -> None:
    result = run("inspect", base_path / "00000123")
    assert result.stdout.splitlines() == [
        f"{base_path}/00000123: written by TensorFlow 2.21.0, stateless",
        "serving_default (tensorflow/serving/predict)",
        "  <- x: float [-1] x:0",
        "  -> y: float [-1] y:0",
        "t (tensorflow/serving/predict)",
        "  <- s: string [-1] s:0",
    ]
    assert result.stderr.startswith('warning: Signature "t" declares input "s" as float')
    document = run_json("inspect", base_path / "00000123")
    assert document["signatures"]["t"]["inputs"] == {"s": {"tensor": "s:0", "dtype": "string", "shape": [-1]}}
    assert len(document["warnings"]) == 1


def test_inspect_shows_problems(tmp_path: Path) -> None:
    write(tmp_path / "m", identity().signature("bad", {"x": ("nothing", 1)}, {}))
    assert 'Signature "bad" cannot be served: input "x"' in run("inspect", tmp_path / "m").stdout


def test_config(base_path: Path) -> None:
    text = run("config", base_path / "00000123", "--name", "any").stdout
    triton_config.validate(text, "any")
    assert run_json("config", base_path / "00000123", "--name", "any") == {"name": "any", "config": text}
    gpu = run("config", base_path / "00000123", "--name", "any", "--device=gpu:1", "--runner_threads=2").stdout
    assert "gpus: 1" in gpu


def test_config_with_batching_and_custom_ops(tmp_path: Path, base_path: Path) -> None:
    parameters = tmp_path / "batching.config"
    parameters.write_text("max_batch_size { value: 4 }")
    flags = (f"--batching_parameters_file={parameters}", "--op_libraries=/ops/a.so,/ops/b.so")
    text = run("config", base_path / "00000123", "--name=any", *flags).stdout
    assert '\\"max_batch_size\\":4' in text
    assert r"[\"/ops/a.so\", \"/ops/b.so\"]" in text
    parameters.write_text("max_batch_size: 4")
    result = run("config", base_path / "00000123", "--name=any", *flags, code=1)
    assert result.stderr.startswith(f"Error: Invalid protobuf file: '{parameters}'")


def test_sync_and_clean(tmp_path: Path, base_path: Path) -> None:
    place = ("--repository", tmp_path / "repository", "--deployment", DEPLOYMENT)
    sync = ("sync", "--model_name", "m", "--base_path", base_path, *place, "--device=cpu")
    triton_name = names.servable_name(DEPLOYMENT, "m", 123)
    assert "written by link, " in (first := run(*sync)).stdout
    assert "warning: version 123" in first.stderr
    assert run_json(*sync)["versions"][0]["outcome"] == "unchanged"
    write(base_path / "124", GraphBuilder(tags=("train",)))
    assert "Could not find meta graph def" in run(*sync, code=1).stderr
    write(base_path / "125")
    newest = names.servable_name(DEPLOYMENT, "m", 125)
    assert f"removed {triton_name}" in run(*sync, "--delete").stdout
    assert run_json("clean", *place, "--keep", newest) == {"removed": []}
    assert run("clean", *place).stdout == f"removed {newest}\n"
    assert os.listdir(tmp_path / "repository") == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["scan", "/nowhere"], "Error: base path /nowhere cannot be read: No such file or directory"),
        (["inspect", "/nowhere"], "Error: /nowhere; No such file or directory"),
        (["clean", "--repository", "/dev/null/x", "--deployment", DEPLOYMENT], "Not a directory"),
    ],
)
def test_failures_are_one_sentence(arguments: list[str], sentence: str) -> None:
    result = run(*arguments, code=1)
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["clean", "--repository", "/x", "--deployment", "../.."], "'../..' is not 8 lower-case hex digits"),
        (["config", "/x", "--name", "n", "--device", "tpu"], "'tpu' is no device"),
        (["sync", "--version_policy", "newest"], "'newest' is no version policy"),
        (["config", "/x"], "Missing option '--name'"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str) -> None:
    assert sentence in run(*arguments, code=2).stderr
