"""What README and docs name exists, and the generated pages are what the code says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

import model_repo_sync.cli
from bridge.cli.main import main as bridge
from bridge.settings import SETTINGS
from bridge.tfserving.flag_table import FLAGS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9_-]*)")
VARIABLE = re.compile(r"\bBRIDGE_[A-Z_]+\b")
METRIC = re.compile(r"`(bridge_[a-z_]+)`")
COMMAND = re.compile(r"^(?:\$ )?((?:bridge|model-repo-sync)(?: [a-z][a-z-]*)+)")
LINK = re.compile(r"\]\(([^)#:]+)\)")
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
OTHER_PROGRAMS = {"build", "profile", "data", "fail", "shm-size", "prefix", "quick"}
"""Flags of docker, curl, etcdctl and the benchmarks that the pages show."""

OF_COMPOSE = {"BRIDGE_ADMIN_TOKEN"}
"""Variables that compose.yaml takes and the bridge does not."""


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def known_commands(generate: ModuleType) -> dict[str, click.Command]:
    return {**dict(generate.commands(bridge)), **dict(generate.commands(model_repo_sync.cli.main))}


def code_lines(page: Path) -> list[str]:
    """The lines of code blocks and spans."""
    return [line.strip("` ") for code in CODE.findall(page.read_text()) for line in code.splitlines()]


def test_generated_pages_are_what_the_code_says() -> None:
    result = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_exists(page: Path, known_commands: dict[str, click.Command]) -> None:
    known = {flag.name for flag in FLAGS} | OTHER_PROGRAMS | {"help"}
    for command in known_commands.values():
        known |= {option.lstrip("-") for parameter in command.params for option in parameter.opts}
    triton = (ROOT / "bridge" / "triton" / "embedded.py").read_text() + (ROOT / "compose.yaml").read_text()
    known |= set(FLAG.findall(triton))
    named = {flag for line in code_lines(page) for flag in FLAG.findall(line)}
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_exists(page: Path, known_commands: dict[str, click.Command]) -> None:
    of_commands = {
        str(parameter.envvar) for command in known_commands.values() for parameter in command.params if parameter.envvar
    }
    known = {setting.variable for setting in SETTINGS} | of_commands | {"BRIDGE_NAME"} | OF_COMPOSE
    assert set(VARIABLE.findall(page.read_text())) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_metric_exists(page: Path, generate: ModuleType) -> None:
    assert set(METRIC.findall(page.read_text())) <= {name for name, _, _ in generate.metrics()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page: Path, known_commands: dict[str, click.Command]) -> None:
    for line in code_lines(page):
        found = COMMAND.match(line)
        if found is not None:
            words = found[1].split()
            assert any(name.split() == words[: len(name.split())] for name in known_commands) or any(
                name.split()[: len(words)] == words for name in known_commands
            ), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for line in code_lines(page) for target in TARGET.findall(line)}
    assert named <= targets
