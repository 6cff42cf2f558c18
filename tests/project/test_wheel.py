"""The distribution: what the wheel carries, that its dependencies are declared, and that it serves from anywhere."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from examples.server import serving

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bridge", "model_repo_sync")
MODEL = ROOT / "examples" / "models" / "half_plus_two"
EXTRAS = {"bridge/registry/listener.py": "postgres"}
"""Files that only users of an extra import, and which extra."""
GIVEN_BY_TRITON = {"triton_python_backend_utils", "tensorflow_engine"}
FROM_PROTOBUF = {"google"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, so that both are proved whole."""
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = directory.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel in it; the dependencies are those of this environment."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    python = directory / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, str(wheel)], check=True)
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    # A path in a .pth file is not searched for .pth files itself, so this checkout stays out.
    Path(purelib.stdout.strip(), "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory


def imported_modules(package: str) -> Iterator[tuple[str, Path]]:
    """The first name of every absolute import, with the file that imports it."""
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((alias.name.split(".")[0], path) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield node.module.split(".")[0], path


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared(project: dict[str, Any], path: Path) -> set[str]:
    """The distributions that a file may import from: the dependencies, and those of the extra that it is for."""
    extra = EXTRAS.get(path.relative_to(ROOT).as_posix())
    wanted = [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]
    return {normal(re.split(r"[\[<>=;, ]", item)[0]) for item in wanted}


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    distributions = packages_distributions()
    ours = {*PACKAGES, *GIVEN_BY_TRITON, *FROM_PROTOBUF, *sys.stdlib_module_names}
    undeclared = {
        (module, path.relative_to(ROOT).as_posix())
        for package in PACKAGES
        for module, path in imported_modules(package)
        if module not in ours and not {normal(name) for name in distributions.get(module, [])} & declared(project, path)
    }
    assert undeclared == set()


@pytest.mark.integration
def test_wheel_carries_what_is_no_module(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "model_repo_sync/protos/protos.binpb" in names
    sources = {f"model_repo_sync/{path.relative_to(ROOT)}" for path in (ROOT / "protos").glob("*/*.proto")}
    migrations = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "bridge/registry/migrations/versions").glob("*.py")
    }
    assert sources <= names
    assert {"bridge/registry/migrations/script.py.mako", *migrations} <= names
    pages = {path for kind in ("templates", "static") for path in (ROOT / "bridge/console/pages" / kind).iterdir()}
    assert {path.relative_to(ROOT).as_posix() for path in pages} <= names
    assert {"bridge/py.typed", "model_repo_sync/py.typed", "model_repo_sync/runner/model.py"} <= names
    assert any(name.startswith("bridge/codec/native/_json_numbers") for name in names)
    assert any(name.startswith("model_repo_sync/runner/tensorflow_engine/native/_run") for name in names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)


@pytest.mark.integration
def test_installed_wheel_serves_in_an_empty_directory(environment: Path, tmp_path: Path) -> None:
    located = subprocess.run(
        [
            environment / "bin" / "python",
            "-c",
            "import bridge, model_repo_sync as m; print(bridge.__file__, m.__file__)",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert all(path.startswith(str(environment)) for path in located.stdout.split())
    flags = ["--model_name=half_plus_two", f"--model_base_path={MODEL}"]
    with serving(tmp_path / "state", flags, program=[str(environment / "bin" / "bridge")]) as server:
        request = urllib.request.Request(
            f"http://{server.rest}/v1/models/half_plus_two:predict", b'{"instances": [1.0, 2.0, 5.0]}'
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response) == {"predictions": [2.5, 3.0, 4.5]}


@pytest.mark.integration
def test_installed_wheel_has_the_drop_in_command(environment: Path, tmp_path: Path) -> None:
    command = [environment / "bin" / "tensorflow_model_server", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert printed.startswith("TensorFlow ModelServer: ")
