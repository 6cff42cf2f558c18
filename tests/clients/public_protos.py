"""The public protos as a FileDescriptorSet, as the official Python package carries them.

python -m tests.clients.public_protos FILE

Writes FILE and prints the names of its files. It imports TensorFlow, so it runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2


def main() -> None:
    files: dict[str, FileDescriptorProto] = {}
    for module in (prediction_service_pb2, model_service_pb2):
        _collect(module.DESCRIPTOR, files)
    Path(sys.argv[1]).write_bytes(FileDescriptorSet(file=files.values()).SerializeToString())
    print(json.dumps(list(files)))


def _collect(file: Any, files: dict[str, FileDescriptorProto]) -> None:
    """Add `file` after the files that it imports."""
    if file.name in files:
        return
    for imported in file.dependencies:
        _collect(imported, files)
    file.CopyToProto(proto := FileDescriptorProto())
    files[file.name] = proto


if __name__ == "__main__":
    main()
