"""TF Serving's entry point script, run outside a container, and the images that have it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from bridge.tfserving.flag_table import STOCK

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "bridge" / "tf_serving_entrypoint.sh"
TARGET = "/usr/bin/tf_serving_entrypoint.sh"


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A directory with a tensorflow_model_server that prints its arguments, a line each."""
    command = tmp_path / "tensorflow_model_server"
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "arguments", "name", "base_path"),
    [
        ({}, [], "model", "/models/model"),
        ({"MODEL_NAME": "half"}, [], "half", "/models/half"),
        ({"MODEL_NAME": ""}, [], "model", "/models/model"),
        ({"MODEL_BASE_PATH": "/srv"}, [], "model", "/srv/model"),
        ({"MODEL_BASE_PATH": "s3://bucket", "MODEL_NAME": "half"}, [], "half", "s3://bucket/half"),
        ({"MODEL_NAME": "two words"}, [], "two words", "/models/two words"),
        ({}, ["--model_config_file=/models/my models.config", "--enable_batching"], "model", "/models/model"),
    ],
)
def test_variables_are_expanded_and_arguments_follow(
    echo: Path, variables: Mapping[str, str], arguments: list[str], name: str, base_path: str
) -> None:
    environment = {"PATH": f"{echo}:{os.environ['PATH']}", **variables}
    done = subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "--port=8500",
        "--rest_api_port=8501",
        f"--model_name={name}",
        f"--model_base_path={base_path}",
        *arguments,
    ]


def test_script_becomes_the_server(echo: Path) -> None:
    """So that a container's stop signal reaches the server."""
    (echo / "tensorflow_model_server").write_text("#!/bin/sh\necho $$\n")
    environment = {"PATH": f"{echo}:{os.environ['PATH']}"}
    with subprocess.Popen([SCRIPT], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0].strip() == str(process.pid)


def test_its_flags_are_stock_flags() -> None:
    named = {word.partition("=")[0] for word in SCRIPT.read_text().split() if word.startswith("--")}
    assert named <= {f"--{flag.name}" for flag in STOCK}


@pytest.mark.parametrize("image", ["bridge", "drop-in"])
def test_images_have_the_script_and_the_command(image: str) -> None:
    text = (ROOT / "deploy" / image / "Dockerfile").read_text()
    assert f"COPY --chmod=755 {SCRIPT.relative_to(ROOT)} {TARGET}\n" in text
    assert "pip install" in text
    assert (
        'tensorflow_model_server = "bridge.cli.tensorflow_model_server:main"' in (ROOT / "pyproject.toml").read_text()
    )


def test_drop_in_image_starts_as_the_stock_image() -> None:
    text = (ROOT / "deploy" / "drop-in" / "Dockerfile").read_text()
    lines = text.splitlines()
    (entrypoint,) = [line for line in lines if line.startswith("ENTRYPOINT")]
    assert yaml.safe_load(entrypoint.removeprefix("ENTRYPOINT ")) == [TARGET]
    assert {"ENV MODEL_BASE_PATH=/models", "ENV MODEL_NAME=model", "EXPOSE 8500", "EXPOSE 8501"} <= set(lines)
