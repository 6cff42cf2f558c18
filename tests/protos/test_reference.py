"""Our declarations against those that TensorFlow and the official client package ship."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from model_repo_sync.protos import DESCRIPTOR_SET, POOL
from tests.protos import contract, reference_descriptors

OLDER_FIELDS = {
    "tensorflow.serving.FileSystemStoragePathSourceConfig": {"string servable_name = 1", "string base_path = 2"},
}
"""Published once, reserved since."""


class Declarations:
    """All messages, enums and services of a descriptor set as contract entries."""

    def __init__(self, serialized: bytes) -> None:
        self.files = FileDescriptorSet.FromString(serialized).file
        self.pool = DescriptorPool()
        for file in self.files:
            self.pool.AddSerializedFile(file.SerializeToString())
        self.entries = {name: kind for file in self.files for kind, name in _declared(file)}

    def members(self, name: str) -> set[str]:
        return set(contract.members(self.pool, self.entries[name], name))


def _declared(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    yield from (("service", f"{file.package}.{service.name}") for service in file.service)
    yield from (("enum", f"{file.package}.{enum.name}") for enum in file.enum_type)
    for message in file.message_type:
        yield from _declared_in(message, file.package)


def _declared_in(message: DescriptorProto, scope: str) -> Iterator[tuple[str, str]]:
    name = f"{scope}.{message.name}"
    yield "message", name
    yield from (("enum", f"{name}.{enum.name}") for enum in message.enum_type)
    for nested in message.nested_type:
        yield from _declared_in(nested, name)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Declarations:
    target = tmp_path_factory.mktemp("reference") / "reference.binpb"
    program = Path(reference_descriptors.__file__)
    subprocess.run([sys.executable, str(program), str(target)], check=True, capture_output=True, timeout=100)
    return Declarations(target.read_bytes())


@pytest.fixture(scope="module")
def ours() -> Declarations:
    return Declarations((resources.files("model_repo_sync.protos") / DESCRIPTOR_SET).read_bytes())


def test_official_client_package_declares_nothing_that_we_lack(reference: Declarations, ours: Declarations) -> None:
    names = [name for name in reference.entries if name.startswith("tensorflow.serving.")]
    assert len(names) > 70
    missing = {name: reference.members(name) - ours.members(name) for name in names if name in ours.entries}
    assert [name for name in names if name not in ours.entries] == []
    assert {name: lines for name, lines in missing.items() if lines} == {}


def test_we_declare_nothing_that_upstream_lacks(reference: Declarations, ours: Declarations) -> None:
    """A subset of the fields of TensorFlow core is fine, another number or type is not."""
    shared = [name for name in ours.entries if name in reference.entries]
    assert len(shared) > 170
    own = {name: ours.members(name) - reference.members(name) - OLDER_FIELDS.get(name, set()) for name in shared}
    assert {name: lines for name, lines in own.items() if lines} == {}


def test_every_message_of_tensorflow_core_is_known_upstream(reference: Declarations, ours: Declarations) -> None:
    core = [name for file in ours.files if file.name.startswith("tensorflow/") for _, name in _declared(file)]
    assert [name for name in core if name not in reference.entries] == []


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow.TensorProto",
        "tensorflow.ConfigProto",
        "tensorflow.GPUOptions",
        "tensorflow.GraphOptions",
        "tensorflow.SignatureDef",
        "tensorflow.TensorInfo",
        "tensorflow.DataType",
        "tensorflow.AttrValue",
        "tensorflow.Feature",
        "tensorflow.error.Code",
    ],
)
def test_complete_messages_of_tensorflow_core(name: str, reference: Declarations, ours: Declarations) -> None:
    assert reference.members(name) == ours.members(name)


@pytest.mark.parametrize("name", ["tensorflow.serving.StatusProto", "tensorflow.serving.GetModelStatusResponse"])
def test_json_names_are_the_official_ones(name: str, reference: Declarations) -> None:
    """The REST API prints these fields in snake case, against protobuf's custom."""
    official = {field.name: field.json_name for field in reference.pool.FindMessageTypeByName(name).fields}
    assert {field.name: field.json_name for field in POOL.FindMessageTypeByName(name).fields} == official
