"""Between protobuf messages and the bridge's own types."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from bridge.codec.predict import MalformedRequest, ModelSpec
from model_repo_sync.protos.tensorflow_serving import model_pb2

M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: bytes) -> M:
    """The message of type `kind` in `data`. Raises MalformedRequest."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise MalformedRequest(f"The request is no {message.DESCRIPTOR.full_name}.") from error
    return message


def model_spec(message: model_pb2.ModelSpec) -> ModelSpec:
    """The ModelSpec in `message`; a version that is set to 0 is version 0, not the latest."""
    choice = message.WhichOneof("version_choice")
    return ModelSpec(
        name=message.name,
        version=message.version.value if choice == "version" else None,
        label=message.version_label if choice == "version_label" else None,
        signature=message.signature_name,
    )
