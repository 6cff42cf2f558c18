"""Messages of TensorFlow Serving, TensorFlow core and ModelMesh in a descriptor pool of their own.

The default pool stays free, so these modules and those of `tensorflow`, `tensorflow_serving` and `tritonclient` can be
imported in one process. The modules below this package look like protoc's (`from model_repo_sync.protos.tensorflow
import tensor_pb2`), but their classes are not those of another package: bytes cross that border, messages do not.
Whatever looks a type up by name (text format, JSON, reflection) needs `descriptor_pool=POOL`.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

DESCRIPTOR_SET = "protos.binpb"


def fill(pool: DescriptorPool) -> None:
    """Add the files of `protos/` and the well-known types that they import. Raises ImportError if they are missing."""
    resource = resources.files(__name__) / DESCRIPTOR_SET
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(resource.read_bytes()).file
    except FileNotFoundError:
        raise ImportError(
            f"{resource} is missing: generate it by `python -m build_protos` in the source tree"
        ) from None
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())


POOL = DescriptorPool()
"""All files of `protos/` and the well-known types that they import."""
fill(POOL)


def message_class(full_name: str) -> type[Message]:
    """The class of a message such as `tensorflow.serving.SignatureDefMap`. Raises KeyError for a name not in POOL."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(full_name))


def define(namespace: dict[str, Any], file_name: str) -> None:
    """Bind the classes, enums and enum values of one file in the namespace of its generated module."""
    file: FileDescriptor = POOL.FindFileByName(file_name)
    namespace["DESCRIPTOR"] = file
    for name, message in file.message_types_by_name.items():
        namespace[name] = _named_class(message, namespace["__name__"])
    for name, enum in file.enum_types_by_name.items():
        namespace |= {name: EnumTypeWrapper(enum), **_values(enum)}


def _named_class(message: Descriptor, module: str) -> type[Message]:
    """The class of `message` with its nested classes, under the module and names that repr and pickle expect.

    The pool drops a class that nobody holds and makes another one later, so each class holds its nested ones.
    """
    cls = message_factory.GetMessageClass(message)
    cls.__module__ = module
    cls.__qualname__ = message.full_name.removeprefix(message.file.package + ".")
    for name, nested in message.nested_types_by_name.items():
        setattr(cls, name, _named_class(nested, module))
    return cls


def _values(enum: EnumDescriptor) -> dict[str, int]:
    return {value.name: value.number for value in enum.values}
