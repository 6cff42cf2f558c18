"""tensorflow.serving.PredictionService: convert, call the request path, convert back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.codec.predict import decode_predict_request, encode_predict_response
from bridge.errors import InvalidArgument, Unimplemented
from bridge.serving.infer import InferenceCore
from bridge.serving.resolve import resolve
from bridge.serving.routes import ServableRoute
from bridge.tfserving.messages import model_spec, parse
from bridge.tfserving.rpc import Caller, Rpc
from model_repo_sync.protos.tensorflow_serving.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
)

SERVICE = "tensorflow.serving.PredictionService"
SIGNATURE_DEF = "signature_def"
"""The one metadata field that TF Serving knows."""


class PredictionService:
    """The RPCs by name. `as_content` makes responses carry tensor_content instead of typed fields."""

    def __init__(self, core: InferenceCore, *, as_content: bool = False) -> None:
        self._core = core
        self._as_content = as_content

    def rpcs(self) -> Mapping[str, Rpc]:
        return {
            "Predict": self.predict,
            "Classify": self.classify,
            "Regress": self.regress,
            "MultiInference": self.multi_inference,
            "GetModelMetadata": self.get_model_metadata,
        }

    async def predict(self, request: bytes, caller: Caller) -> bytes:
        answer = await self._core.predict(decode_predict_request(request), caller.timeout)
        return encode_predict_response(
            answer.model, answer.version, answer.signature, answer.outputs, as_content=self._as_content
        )

    async def classify(self, request: bytes, caller: Caller) -> bytes:
        raise Unimplemented("Classify is not served by this server.")

    async def regress(self, request: bytes, caller: Caller) -> bytes:
        raise Unimplemented("Regress is not served by this server.")

    async def multi_inference(self, request: bytes, caller: Caller) -> bytes:
        raise Unimplemented("MultiInference is not served by this server.")

    async def get_model_metadata(self, request: bytes, caller: Caller) -> bytes:
        message = parse(GetModelMetadataRequest, request)
        if not message.HasField("model_spec"):
            raise InvalidArgument("Missing ModelSpec")
        check_metadata_fields(message.metadata_field)
        servable = resolve(self._core.view.routes, model_spec(message.model_spec))
        return metadata_response(servable).SerializeToString()


def check_metadata_fields(fields: Sequence[str]) -> None:
    """Refuse metadata fields that TF Serving does not know. Raises InvalidArgument."""
    if not fields:
        raise InvalidArgument("GetModelMetadataRequest must specify at least one metadata_field")
    for field in fields:
        if field != SIGNATURE_DEF:
            raise InvalidArgument(f"Metadata field {field} is not supported")


def metadata_response(servable: ServableRoute) -> GetModelMetadataResponse:
    """All signatures of the servable, verbatim; the signature_name of the model_spec stays empty, as in TF Serving."""
    response = GetModelMetadataResponse()
    response.model_spec.name = servable.model
    response.model_spec.version.value = servable.version
    metadata = response.metadata[SIGNATURE_DEF]
    metadata.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    metadata.value = servable.signature_def_map
    return response
