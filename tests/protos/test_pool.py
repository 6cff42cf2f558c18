"""The classes of the private pool behave like generated ones."""

from __future__ import annotations

import importlib
import pickle
import pkgutil

import pytest
from google.protobuf import wrappers_pb2 as default_wrappers_pb2

from model_repo_sync import protos
from model_repo_sync.protos.google import any_pb2, wrappers_pb2
from model_repo_sync.protos.mmesh import model_mesh_pb2
from model_repo_sync.protos.tensorflow import error_codes_pb2, tensor_pb2, types_pb2
from model_repo_sync.protos.tensorflow_serving import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)


def test_every_generated_module_imports() -> None:
    names = [module.name for module in pkgutil.walk_packages(protos.__path__, f"{protos.__name__}.")]
    generated = [importlib.import_module(name) for name in names if name.endswith("_pb2")]
    assert len(generated) > 60
    for module in generated:
        assert set(module.DESCRIPTOR.message_types_by_name) <= vars(module).keys()


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (types_pb2.DT_FLOAT, 1),
        (types_pb2.DataType.Value("DT_FLOAT4_E2M1FN"), 33),
        (error_codes_pb2.UNAVAILABLE, 14),
        (get_model_status_pb2.ModelVersionStatus.AVAILABLE, 30),
        (get_model_status_pb2.ModelVersionStatus.State.Value("END"), 50),
        (model_mesh_pb2.ModelStatusInfo.LOADING_FAILED, 4),
    ],
)
def test_enum_values(value: int, number: int) -> None:
    assert value == number


def test_messages_survive_serialisation_and_pickling() -> None:
    request = predict_pb2.PredictRequest(model_spec=model_pb2.ModelSpec(name="m", version={"value": 3}))
    request.inputs["x"].CopyFrom(tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1.0, 2.0]))
    request.request_options.handshake.estimated_payload_bytes = 8
    assert predict_pb2.PredictRequest.FromString(request.SerializeToString()) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_classes_say_where_they_come_from() -> None:
    nested = predict_pb2.PredictRequest.RequestOptions.Handshake
    assert nested.__module__ == predict_pb2.__name__ == "model_repo_sync.protos.tensorflow_serving.predict_pb2"
    assert nested.__qualname__ == "PredictRequest.RequestOptions.Handshake"


def test_any_holds_messages_of_the_pool() -> None:
    signatures = get_model_metadata_pb2.SignatureDefMap()
    signatures.signature_def["serving_default"].method_name = "tensorflow/serving/predict"
    packed = any_pb2.Any()
    packed.Pack(signatures)
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    message = protos.message_class(packed.TypeName())()
    assert packed.Unpack(message)
    assert message == signatures


def test_well_known_types_are_our_own_classes() -> None:
    ours, default = wrappers_pb2.Int64Value.DESCRIPTOR, default_wrappers_pb2.Int64Value.DESCRIPTOR
    assert ours is not default
    assert ours.file.pool is protos.POOL


def test_unknown_fields_survive() -> None:
    """A newer client's fields reach whoever the bytes are passed on to."""
    newer = b"\xa2\x06\x02hi"
    assert predict_pb2.PredictRequest.FromString(newer).SerializeToString() == newer


def test_unknown_message_name() -> None:
    with pytest.raises(KeyError):
        protos.message_class("tensorflow.serving.Nothing")
