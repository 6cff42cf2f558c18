"""Descriptions of SavedModels in the messages of V2: metadata and configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritonclient.grpc import model_config_pb2, service_pb2

from bridge.kserve.signatures import TensorDescription, describe
from bridge.serving.routes import ServableRoute

PLATFORM = "tensorflow_savedmodel"
BACKEND = "tensorflow"
"""What Triton called SavedModels while it had a backend of that name; clients know these words."""


def metadata(servable: ServableRoute, versions: Sequence[int]) -> Any:
    """The ModelMetadataResponse: the aliases of the default signature, as in Triton's TensorFlow backend."""
    described = describe(servable)
    message = service_pb2.ModelMetadataResponse(
        name=servable.model, versions=[str(version) for version in versions], platform=PLATFORM
    )
    for side, tensors in ((message.inputs, described.inputs), (message.outputs, described.outputs)):
        for tensor in tensors:
            side.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    return message


def configuration(servable: ServableRoute) -> Any:
    """The ModelConfig. Dimensions are whole shapes, so max_batch_size is 0; the parameter `signature_names` has all."""
    described = describe(servable)
    config = model_config_pb2.ModelConfig(name=servable.model, platform=PLATFORM, backend=BACKEND)
    _add(config.input, described.inputs)
    _add(config.output, described.outputs)
    usable = sorted(name for name, route in servable.signatures.items() if not route.problem)
    config.parameters["signature_names"].string_value = ",".join(usable)
    return config


def _add(side: Any, tensors: Sequence[TensorDescription]) -> None:
    for tensor in tensors:
        kind = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
        side.add(name=tensor.name, data_type=model_config_pb2.DataType.Value(f"TYPE_{kind}"), dims=tensor.shape)
