"""The requests that carry tensorflow.Examples, Classify, Regress and MultiInference, from their wire bytes.

An Input is read by way of its wire-compatible twin SerializedInput: an Example is never parsed here, its bytes are one
element of the string tensor that the graph parses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.codec import wire
from bridge.codec.model_spec import ModelSpec, encode_model_spec, merge_model_spec
from bridge.codec.string_tensor import frame
from bridge.codec.tensor import Tensor
from bridge.codec.wire import LEN, MalformedRequest
from model_repo_sync.runner.tensorflow_engine.dtypes import DT_STRING

_MODEL_SPEC, _INPUT = 1 << 3 | LEN, 2 << 3 | LEN
_TASKS, _METHOD_NAME = 1 << 3 | LEN, 2 << 3 | LEN
_EXAMPLE_LIST, _EXAMPLE_LIST_WITH_CONTEXT = 1 << 3 | LEN, 2 << 3 | LEN
_EXAMPLES, _CONTEXT = 1 << 3 | LEN, 2 << 3 | LEN


class Examples(NamedTuple):
    """An Input: serialized Examples, and the serialized Example whose features they share, None without one."""

    items: Sequence[bytes | memoryview] = ()
    context: bytes | None = None

    def tensor(self) -> Tensor:
        """The string tensor that is fed: one element per Example, with the context's bytes before its own.

        Bytes of two messages in a row parse as their merger, in which the Example's features win.
        """
        items = [self.context + item for item in self.items] if self.context else self.items
        return Tensor(DT_STRING, (len(items),), frame(items))


class ExamplesCall(NamedTuple):
    """A ClassificationRequest or RegressionRequest; `spec` is None where the message lacks it."""

    spec: ModelSpec | None
    examples: Examples


class InferenceTask(NamedTuple):
    """One question of a MultiInferenceRequest. A spec that the message lacks is an empty one."""

    spec: ModelSpec
    method_name: str


class MultiInferenceCall(NamedTuple):
    """A MultiInferenceRequest: the tasks in their order, and the Examples that all of them are about."""

    tasks: Sequence[InferenceTask]
    examples: Examples


def decode_examples_request(data: bytes | memoryview) -> ExamplesCall:
    """Split a serialized ClassificationRequest or RegressionRequest, which have one layout. Raises MalformedRequest."""
    spec: ModelSpec | None = None
    inputs: list[memoryview] = []
    for tag, _, view in wire.fields(memoryview(data)):
        if tag == _MODEL_SPEC:
            spec = merge_model_spec(spec, view)
        elif tag == _INPUT:
            inputs.append(view)
    return ExamplesCall(spec, _examples(inputs))


def decode_multi_inference_request(data: bytes | memoryview) -> MultiInferenceCall:
    """Split a serialized MultiInferenceRequest. Raises MalformedRequest."""
    tasks: list[InferenceTask] = []
    inputs: list[memoryview] = []
    for tag, _, view in wire.fields(memoryview(data)):
        if tag == _TASKS:
            tasks.append(_task(view))
        elif tag == _INPUT:
            inputs.append(view)
    return MultiInferenceCall(tasks, _examples(inputs))


def _task(data: memoryview) -> InferenceTask:
    spec, method_name = ModelSpec(), ""
    for tag, _, view in wire.fields(data):
        if tag == _MODEL_SPEC:
            spec = merge_model_spec(spec, view)
        elif tag == _METHOD_NAME:
            method_name = wire.text(view)
    return InferenceTask(spec, method_name)


def _examples(inputs: Sequence[memoryview]) -> Examples:
    """The Examples of an Input that may come in pieces: the last kind that is set wins, equal kinds are merged."""
    kind, lists = 0, list[memoryview]()
    try:
        for data in inputs:
            for tag, _, view in wire.fields(data):
                if tag in (_EXAMPLE_LIST, _EXAMPLE_LIST_WITH_CONTEXT):
                    lists = [*lists, view] if tag == kind else [view]
                    kind = tag
        return _merged(lists, kind == _EXAMPLE_LIST_WITH_CONTEXT)
    except MalformedRequest:
        raise MalformedRequest("Error parsing serialized input.") from None


def _merged(lists: Sequence[memoryview], with_context: bool) -> Examples:
    items: list[bytes | memoryview] = []
    contexts: list[memoryview] = []
    for data in lists:
        for tag, _, view in wire.fields(data):
            if tag == _EXAMPLES:
                items.append(view)
            elif tag == _CONTEXT and with_context:
                contexts.append(view)
    return Examples(items, b"".join(contexts) if contexts else None)


def encode_examples_request(spec: ModelSpec, examples: Examples) -> bytes:
    """A serialized ClassificationRequest or RegressionRequest: what a REST body means."""
    name, version, label, signature, _ = spec
    items = [wire.length_delimited(_EXAMPLES, bytes(item)) for item in examples.items]
    kind = _EXAMPLE_LIST
    if examples.context is not None:
        kind = _EXAMPLE_LIST_WITH_CONTEXT
        items.append(wire.length_delimited(_CONTEXT, examples.context))
    request = wire.length_delimited(_MODEL_SPEC, encode_model_spec(name, version, signature, label))
    return request + wire.length_delimited(_INPUT, wire.length_delimited(kind, b"".join(items)))
