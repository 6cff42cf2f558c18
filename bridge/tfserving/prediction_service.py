"""tensorflow.serving.PredictionService: convert, call the request path, convert back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from bridge.codec.examples import InferenceTask, decode_examples_request, decode_multi_inference_request
from bridge.codec.inference_results import encode_multi_inference_response, encode_response
from bridge.codec.long_message import Message
from bridge.codec.model_spec import ModelSpec
from bridge.codec.predict import decode_predict_request, predict_response
from bridge.errors import InvalidArgument
from bridge.serving.addressing import TF_SERVING, Addressing
from bridge.serving.destination import as_servable
from bridge.serving.infer import InferenceCore
from bridge.serving.inference import CLASSIFY, MULTI_INFERENCE, PREDICT, REGRESS, Inference, InferExamples
from bridge.serving.observer import Answered, Entrypoint, Exchange, observed
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
    """The RPCs by name, on a port with that `addressing`.

    `as_content` makes responses carry tensor_content instead of typed fields.
    """

    def __init__(self, core: InferenceCore, *, as_content: bool = False, addressing: Addressing = TF_SERVING) -> None:
        self._core = core
        self._inference = Inference(core)
        self._as_content = as_content
        self._address = addressing.address

    def rpcs(self) -> Mapping[str, Rpc]:
        return {
            PREDICT: self.predict,
            CLASSIFY: self.classify,
            REGRESS: self.regress,
            MULTI_INFERENCE: self.multi_inference,
            "GetModelMetadata": self.get_model_metadata,
        }

    async def predict(self, request: bytes, caller: Caller) -> Message:
        call = decode_predict_request(request)
        call = call._replace(spec=self._address(call.spec, caller.entries))
        with self._observed(PREDICT, call.spec):
            answer = await self._inference.predict(call, caller.timeout)
            response = predict_response(
                answer.model, answer.version, answer.signature, answer.outputs, as_content=self._as_content
            )
        self._exchanged(PREDICT, answer.model, answer.version, answer.signature, (request, response))
        return response

    async def classify(self, request: bytes, caller: Caller) -> bytes:
        return await self._on_examples(CLASSIFY, self._inference.classify, request, caller)

    async def regress(self, request: bytes, caller: Caller) -> bytes:
        return await self._on_examples(REGRESS, self._inference.regress, request, caller)

    async def multi_inference(self, request: bytes, caller: Caller) -> bytes:
        call = decode_multi_inference_request(request)
        call = call._replace(tasks=[self._addressed(task, caller) for task in call.tasks])
        with self._observed(MULTI_INFERENCE, call.tasks[0].spec if call.tasks else None):
            answer = await self._inference.multi_inference(call, caller.timeout)
            response = encode_multi_inference_response(answer.model, answer.version, answer.results)
        self._exchanged(MULTI_INFERENCE, answer.model, answer.version, "", (request, response))
        return response

    async def _on_examples(self, api: str, infer: InferExamples, request: bytes, caller: Caller) -> bytes:
        call = decode_examples_request(request)
        call = call._replace(spec=self._address(call.spec, caller.entries))
        with self._observed(api, call.spec):
            answer = await infer(call, caller.timeout)
            response = encode_response(answer.model, answer.version, answer.result)
        self._exchanged(api, answer.model, answer.version, answer.result.signature, (request, response))
        return response

    def _observed(self, api: str, spec: ModelSpec | None) -> AbstractContextManager[Answered]:
        return observed(self._core.observer, Entrypoint.GRPC, api, spec.name if spec else "")

    def _exchanged(self, api: str, model: str, version: int, signature: str, messages: tuple[bytes, Message]) -> None:
        request, response = messages
        self._core.observer.exchanged(Exchange(api, model, version, signature, lambda: (request, bytes(response))))

    async def get_model_metadata(self, request: bytes, caller: Caller) -> bytes:
        message = parse(GetModelMetadataRequest, request)
        spec = model_spec(message.model_spec) if message.HasField("model_spec") else None
        spec = self._address(spec, caller.entries)
        if spec is None:
            raise InvalidArgument("Missing ModelSpec")
        check_metadata_fields(message.metadata_field)
        destination = await self._core.destination(spec, caller.timeout)
        return metadata_response(as_servable(destination)).SerializeToString()

    def _addressed(self, task: InferenceTask, caller: Caller) -> InferenceTask:
        return task._replace(spec=self._address(task.spec, caller.entries) or task.spec)


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
