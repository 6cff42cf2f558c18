"""The environment that make and CI set up."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("embedded", "object-stores", "postgres", "dev")
CONTRACT = {"serve", "demo", "test", "check", "bench", "protos", "gpu-check", "help"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> set[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {normal(line.split("==")[0]) for line in lines if not line.startswith("#")}


def test_every_direct_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(item for extra in EXTRAS for item in project["optional-dependencies"][extra])]
    direct = {normal(re.split(r"[\[<>=;, ]", item)[0]) for item in wanted}
    assert direct - pins() == set(), "run make lock"


def test_setup_installs_every_extra() -> None:
    assert f".[{','.join(EXTRAS)}]" in (ROOT / ".ci" / "environment").read_text()


def test_make_help_lists_the_commands() -> None:
    listing = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {line.split()[0] for line in listing.stdout.splitlines()} >= CONTRACT


@pytest.mark.parametrize(
    ("arguments", "base_path"),
    [
        ((), f"{ROOT}/examples/models/half_plus_two"),
        (("MODEL_NAME=resnet", "MODEL_BASE_PATH=/models"), "/models/resnet"),
    ],
)
def test_make_serve_serves_the_named_model(arguments: tuple[str, ...], base_path: str) -> None:
    command = ["make", "--no-print-directory", "--just-print", "serve", *arguments]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f'--model_base_path="{base_path}"' in shown
    assert "exec .venv/bin/bridge serve --port=8500 --rest_api_port=8501 --admin_port=8502" in shown


def test_environment_without_a_fitting_python_says_what_to_install(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHON": "python3.11"}
    command = ["/bin/sh", str(ROOT / ".ci" / "environment"), str(tmp_path / "venv")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "install python3.11 and python3.11-venv" in result.stderr
