"""The published API as data: what `*_api.txt` list, and the same lines written from descriptors.

A contract file lists messages, enums and services in the order of the published description, one member a line:
`[repeated] type name = number [in oneof]`, `NAME = number`, `name (request) returns (response)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    EnumValueDescriptor,
    FieldDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)
from google.protobuf.descriptor_pool import DescriptorPool

HERE = Path(__file__).parent
CONTRACTS = {"tensorflow-serving": HERE / "tensorflow_serving_api.txt", "modelmesh": HERE / "modelmesh_api.txt"}

SCALARS = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_SFIXED32: "sfixed32",
    FieldDescriptor.TYPE_SFIXED64: "sfixed64",
    FieldDescriptor.TYPE_SINT32: "sint32",
    FieldDescriptor.TYPE_SINT64: "sint64",
}


@dataclass
class Entry:
    """A message, enum or service (`kind`) with its members' lines."""

    kind: str
    name: str
    members: list[str] = field(default_factory=list)


def read(path: Path) -> list[Entry]:
    entries: list[Entry] = []
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            entries[-1].members.append(line.strip())
        else:
            kind, name = line.split()
            entries.append(Entry(kind, name))
    return entries


def members(pool: DescriptorPool, kind: str, name: str) -> list[str]:
    """The lines of `name` as `pool` knows it. Raises KeyError where it does not."""
    if kind == "message":
        return message_members(pool.FindMessageTypeByName(name))
    if kind == "enum":
        return enum_members(pool.FindEnumTypeByName(name))
    return service_members(pool.FindServiceByName(name))


def message_members(message: Descriptor) -> list[str]:
    return [field_line(member) for member in message.fields]


def enum_members(enum: EnumDescriptor) -> list[str]:
    return [enum_value_line(value) for value in enum.values]


def service_members(service: ServiceDescriptor) -> list[str]:
    return [method_line(method) for method in service.methods]


def field_line(member: FieldDescriptor) -> str:
    type_name = field_type(member)
    repeated = "repeated " if member.is_repeated and not type_name.startswith("map<") else ""
    oneof = member.containing_oneof
    where = f" in {oneof.name}" if oneof is not None and not oneof.name.startswith("_") else ""
    return f"{repeated}{type_name} {member.name} = {member.number}{where}"


def field_type(member: FieldDescriptor) -> str:
    message = member.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = (field_type(message.fields_by_name[name]) for name in ("key", "value"))
        return f"map<{key}, {value}>"
    if message is not None:
        return str(message.full_name)
    if member.enum_type is not None:
        return str(member.enum_type.full_name)
    return SCALARS[member.type]


def enum_value_line(value: EnumValueDescriptor) -> str:
    return f"{value.name} = {value.number}"


def method_line(method: MethodDescriptor) -> str:
    return f"{method.name} ({method.input_type.full_name}) returns ({method.output_type.full_name})"
