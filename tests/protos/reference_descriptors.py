"""Run as a program: writes the descriptors of the installed tensorflow and tensorflow-serving-api as one file."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

CORE = (
    "example.example",
    "framework.graph",
    "framework.tensor",
    "protobuf.config",
    "protobuf.fingerprint",
    "protobuf.named_tensor",
    "protobuf.saved_model",
    "protobuf.tensor_bundle",
)


def modules() -> list[str]:
    names = [f"tensorflow.core.{name}_pb2" for name in CORE]
    for package in ("tensorflow_serving.apis", "tensorflow_serving.config"):
        path = importlib.import_module(package).__path__
        names += [f"{package}.{module.name}" for module in pkgutil.iter_modules(path) if module.name.endswith("_pb2")]
    return names


def closure(file: FileDescriptor, seen: dict[str, FileDescriptor]) -> dict[str, FileDescriptor]:
    """`seen` with `file` and all that it depends on, every file after those that it imports."""
    for dependency in file.dependencies:
        closure(dependency, seen)
    seen.setdefault(file.name, file)
    return seen


def main(target: Path) -> None:
    files: dict[str, FileDescriptor] = {}
    for name in modules():
        closure(importlib.import_module(name).DESCRIPTOR, files)
    descriptors = FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(descriptors.file.add())
    target.write_bytes(descriptors.SerializeToString())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
