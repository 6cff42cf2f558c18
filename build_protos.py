"""Generates `model_repo_sync/protos` from `protos/`: `python -m build_protos`, or as a part of any build by setup.py.

One FileDescriptorSet holds every file with its imports. Each file gets a module that binds the classes of the private
pool, and a stub for type checkers. The well-known types live in that pool as well, as `model_repo_sync.protos.google`.
"""

from __future__ import annotations

import re
import tempfile
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "protos"
PACKAGE = "model_repo_sync.protos"
TARGET = ROOT / "model_repo_sync" / "protos"
DESCRIPTOR_SET = "protos.binpb"

WELL_KNOWN = "google/protobuf/"
IMPORT = re.compile(r"^from (google\.protobuf|tensorflow|tensorflow_serving|mmesh) import (\w+_pb2) as", re.MULTILINE)
ENUM_ARGUMENT = re.compile(r"_Union\[([\w.]+), str\]")

MODULE = '''"""Generated from {source}."""

from {package} import define as _define

_define(globals(), "{name}")
'''


def generate() -> list[Path]:
    """Bring all generated files up to date and delete those without a source. Returns their paths."""
    with tempfile.TemporaryDirectory() as scratch:
        contents = _contents(Path(scratch))
    for stale in {*TARGET.glob("*/*_pb2.py"), *TARGET.glob("*/*_pb2.pyi")} - contents.keys():
        stale.unlink()
    for path, content in contents.items():
        _write(path, content)
    return sorted(contents)


def _contents(scratch: Path) -> dict[Path, bytes]:
    """What each generated file has to hold."""
    binary = scratch / DESCRIPTOR_SET
    sources = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.glob("*/*.proto"))
    _protoc(f"--descriptor_set_out={binary}", "--include_imports", *sources)
    names = [file.name for file in FileDescriptorSet.FromString(binary.read_bytes()).file]
    _protoc(f"--pyi_out={scratch}", *names)
    contents = {TARGET / DESCRIPTOR_SET: binary.read_bytes()}
    for name in names:
        module = _module_path(name)
        stub = (scratch / name.replace(".proto", "_pb2.pyi")).read_text()
        source = name if name.startswith(WELL_KNOWN) else f"protos/{name}"
        contents[module] = MODULE.format(source=source, package=PACKAGE, name=name).encode()
        contents[module.with_suffix(".pyi")] = _own_stub(stub).encode()
    return contents


def _protoc(*arguments: str) -> None:
    includes = [f"-I{SOURCES}", f"-I{resources.files('grpc_tools') / '_proto'}"]
    if protoc.main(["protoc", *includes, *arguments]) != 0:
        raise SystemExit("protoc failed; its messages stand above")


def _module_path(name: str) -> Path:
    """`tensorflow/tensor_pb2.py` for `tensorflow/tensor.proto`, `google/any_pb2.py` for `google/protobuf/any.proto`."""
    return TARGET / name.replace(WELL_KNOWN, "google/").replace(".proto", "_pb2.py")


def _own_stub(stub: str) -> str:
    """protoc's stub with imports of our packages, and with enum fields as they are at run time: open, plain ints."""
    stub = IMPORT.sub(_own_import, stub)
    for enum in set(ENUM_ARGUMENT.findall(stub)):
        stub = re.sub(rf"^( +[a-z]\w*): {re.escape(enum)}$", r"\1: int", stub, flags=re.MULTILINE)
        stub = stub.replace(f"RepeatedScalarFieldContainer[{enum}]", "RepeatedScalarFieldContainer[int]")
    stub = ENUM_ARGUMENT.sub("_Union[int, str]", stub)
    return stub.replace(", _Mapping]", ", _Mapping[str, object]]")


def _own_import(match: re.Match[str]) -> str:
    package = match[1].removesuffix(".protobuf")
    return f"from {PACKAGE}.{package} import {match[2]} as"


def _write(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


if __name__ == "__main__":
    print(f"{len(generate())} files in {TARGET.relative_to(ROOT)}")
