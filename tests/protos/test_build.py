"""The build step: what wheels and editable installs carry, and stubs that type checkers accept."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import build_protos

ROOT = Path(build_protos.__file__).parent
SOURCES = [path.relative_to(ROOT / "protos").as_posix() for path in sorted((ROOT / "protos").glob("*/*.proto"))]

TYPED = """
from model_repo_sync.protos.tensorflow import tensor_pb2, types_pb2
from model_repo_sync.protos.tensorflow_serving import get_model_status_pb2, predict_pb2

request = predict_pb2.PredictRequest(output_filter=["y"])
request.model_spec.version.value = 3
request.inputs["x"].CopyFrom(tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1.0]))
dtype: int = request.inputs["x"].dtype
status = get_model_status_pb2.ModelVersionStatus(version=1, state=30)
status.state = get_model_status_pb2.ModelVersionStatus.END
copy: predict_pb2.PredictRequest = predict_pb2.PredictRequest.FromString(request.SerializeToString())
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=110, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources without anything generated."""
    target = tmp_path / "checkout"
    target.mkdir()
    for name in ("bridge", "model_repo_sync", "protos"):
        ignored = shutil.ignore_patterns("*_pb2.py", "*_pb2.pyi", "*.binpb", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    return target


def test_generated_files_are_up_to_date() -> None:
    stamps = {path: path.stat().st_mtime_ns for path in (ROOT / "model_repo_sync" / "protos").glob("**/*_pb2.py*")}
    assert len(stamps) == 2 * len(SOURCES) + 4
    assert stamps.keys() < set(build_protos.generate())
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_stale_modules_are_deleted(checkout: Path) -> None:
    stale = checkout / "model_repo_sync" / "protos" / "mmesh" / "gone_pb2.py"
    stale.touch()
    done = run("-m", "build_protos", cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert not stale.exists()
    assert (checkout / "model_repo_sync" / "protos" / "mmesh" / "model_mesh_pb2.py").exists()


def test_errors_of_the_compiler_end_the_build(checkout: Path) -> None:
    (checkout / "protos" / "mmesh" / "broken.proto").write_text('syntax = "proto3";\nmessage {')
    done = run("-m", "build_protos", cwd=checkout)
    assert done.returncode != 0
    assert "mmesh/broken.proto:2" in done.stderr


def test_missing_descriptor_set_says_how_to_make_it(checkout: Path) -> None:
    done = run("-c", "import model_repo_sync.protos", cwd=checkout)
    assert done.returncode != 0
    assert "protos.binpb is missing: generate it by `python -m build_protos`" in done.stderr


def test_wheel_carries_sources_and_generated_modules(checkout: Path, tmp_path: Path) -> None:
    done = run("-m", "build", "--no-isolation", "--outdir", tmp_path, checkout, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    content = zipfile.ZipFile(wheel)
    names = set(content.namelist())
    for source in SOURCES:
        stem = f"model_repo_sync/protos/{source.removesuffix('.proto')}"
        assert {f"{stem}.proto", f"{stem}_pb2.py", f"{stem}_pb2.pyi"} <= names
    content.extractall(tmp_path / "site")
    code = "from model_repo_sync.protos.tensorflow_serving import predict_pb2; print(predict_pb2.__file__)"
    done = run("-c", code, cwd=tmp_path / "site")
    assert done.stdout.startswith(str(tmp_path / "site")), done.stderr


def test_editable_install_generates(checkout: Path, tmp_path: Path) -> None:
    hook = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    done = run("-c", hook, cwd=checkout)
    assert done.returncode == 0, done.stderr
    generated = checkout / "model_repo_sync" / "protos"
    assert (generated / "protos.binpb").exists()
    assert len(list(generated.glob("*/*_pb2.py"))) == len(SOURCES) + 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "Success"),
        ('request.model_spec.version.value = "3"', 'expression has type "str"'),
        ("request.no_such_field = 1", 'has no attribute "no_such_field"'),
    ],
)
def test_stubs_under_strict_type_checking(line: str, problem: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"{TYPED}{line}\n")
    done = run("-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program, cwd=ROOT)
    assert problem in done.stdout, done.stderr


def test_no_stub_mentions_foreign_packages() -> None:
    """A stub that imported `tensorflow` would give another type to the same field."""
    for stub in (ROOT / "model_repo_sync" / "protos").glob("*/*_pb2.pyi"):
        for line in stub.read_text().splitlines():
            assert not line.startswith(("from tensorflow", "from mmesh", "from google.protobuf import any_pb2"))
