"""TF Serving's inference calls on the request path, for the shells to convert to and from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from bridge.codec.examples import ExamplesCall, MultiInferenceCall
from bridge.codec.inference_results import TaskResult
from bridge.codec.model_spec import ModelSpec
from bridge.codec.predict import PredictCall
from bridge.codec.tensor import Tensor
from bridge.serving import method_names, multi_inference
from bridge.serving.classify import classifier
from bridge.serving.examples import examples_run
from bridge.serving.infer import Answer, P, Plan
from bridge.serving.multi_inference import Head
from bridge.serving.observer import Observer
from bridge.serving.predict import session_run
from bridge.serving.regress import regressor
from bridge.serving.resolve import examples_signature, predict_signature
from bridge.serving.routes import ServableRoute, SignatureRoute, TensorRoute
from bridge.serving.session_run import SessionRun

PREDICT, CLASSIFY, REGRESS, MULTI_INFERENCE = "Predict", "Classify", "Regress", "MultiInference"
"""The names of the RPCs, by which observers know the calls whatever port they came by."""


class Prediction(NamedTuple):
    """An answered Predict: who answered, and the outputs by alias."""

    model: str
    version: int
    signature: str
    outputs: list[tuple[str, Tensor]]


class Inferred(NamedTuple):
    """An answered Classify, Regress or MultiInference: who answered, and the results in the order of the questions."""

    model: str
    version: int
    results: list[TaskResult]

    @property
    def result(self) -> TaskResult:
        """The answer to the only question."""
        return self.results[0]


InferExamples = Callable[[ExamplesCall, float | None], Awaitable[Inferred]]
"""`Inference.classify` or `Inference.regress`."""


class Core(Protocol):
    """What the calls need of the request path."""

    @property
    def check_method_names(self) -> bool: ...

    @property
    def observer(self) -> Observer: ...

    async def infer(self, spec: ModelSpec | None, plan: Plan[P], timeout: float | None, api: str = "") -> Answer[P]:
        """Answer a request whose meaning on a servable `plan` tells. Raises BridgeError."""


class Inference:
    """The calls. Each answers within `timeout` seconds, None means the cap of the request path's settings.

    Each raises BridgeError with TF Serving's code and sentence.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._check = core.check_method_names

    async def predict(self, call: PredictCall, timeout: float | None) -> Prediction:
        async def plan(servable: ServableRoute) -> tuple[SignatureRoute, SessionRun]:
            signature = predict_signature(servable, call.spec.signature if call.spec else "")
            if self._check:
                method_names.check_predict(signature)
            return signature, session_run(signature, call.inputs, call.output_filter)

        answer = await self._core.infer(call.spec, plan, timeout, PREDICT)
        return Prediction(answer.servable.model, answer.servable.version, answer.plan.name, answer.outputs)

    async def classify(self, call: ExamplesCall, timeout: float | None) -> Inferred:
        return await self._one(call, classifier, timeout, CLASSIFY)

    async def regress(self, call: ExamplesCall, timeout: float | None) -> Inferred:
        return await self._one(call, regressor, timeout, REGRESS)

    async def multi_inference(self, call: MultiInferenceCall, timeout: float | None) -> Inferred:
        """The first task's spec says which version answers all; one that fails fails the call."""

        async def plan(servable: ServableRoute) -> tuple[list[Head], SessionRun]:
            heads = multi_inference.heads(servable, call.tasks, check_method_name=self._check)
            run = examples_run(call.examples, multi_inference.inputs(heads), multi_inference.fetches(heads))
            return heads, run

        spec = call.tasks[0].spec if call.tasks else ModelSpec()
        answer = await self._core.infer(spec, plan, timeout)
        self._core.observer.examples(answer.servable.model, len(call.examples.items))
        return _inferred(answer, len(call.examples.items), multi_inference.fetches(answer.plan))

    async def _one(self, call: ExamplesCall, head_of: _HeadOf, timeout: float | None, api: str) -> Inferred:
        async def plan(servable: ServableRoute) -> tuple[list[Head], SessionRun]:
            signature = examples_signature(servable, call.spec.signature if call.spec else "")
            head = head_of(servable, signature, check_method_name=self._check)
            return [head], examples_run(call.examples, [head.input], head.fetches)

        answer = await self._core.infer(call.spec, plan, timeout, api)
        return _inferred(answer, len(call.examples.items), answer.plan[0].fetches)


class _HeadOf(Protocol):
    def __call__(self, servable: ServableRoute, signature: SignatureRoute, *, check_method_name: bool) -> Head: ...


def _inferred(answer: Answer[list[Head]], count: int, fetches: Sequence[TensorRoute]) -> Inferred:
    tensors = {route.tensor: tensor for route, (_, tensor) in zip(fetches, answer.outputs, strict=True)}
    results = [TaskResult(head.signature, head.result(count, tensors)) for head in answer.plan]
    return Inferred(answer.servable.model, answer.servable.version, results)
