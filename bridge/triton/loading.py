"""Why a load failed: the model's fault or the platform's."""

from __future__ import annotations

import re
from enum import Enum

from bridge.errors import BridgeError, Code
from bridge.triton.calls import CallError
from bridge.triton.errors import TF_STATUS, bare, canonical

_BOILERPLATE = re.compile(
    r"^(load failed for model '[^']*': )?(version -?\d+ is at UNAVAILABLE state: )?"
    r"([A-Z][A-Za-z ]*: )?([\w.]+(Error|Exception): )?"
)


class FailureKind(Enum):
    """Decides whether another try of the same load can help."""

    MODEL = "model"
    """TensorFlow refused the SavedModel: it counts against the retries."""
    PLATFORM = "platform"
    """Triton, its runner, its memory or its disk: the version stays LOADING and is tried again with back-off."""


class LoadFailure(BridgeError):
    """A load that failed. `code` and `message` are TensorFlow's own where the model is at fault."""

    def __init__(self, kind: FailureKind, code: Code, message: str) -> None:
        super().__init__(message, code)
        self.kind = kind


def from_text(text: str, code: Code) -> LoadFailure:
    """The failure that Triton tells by `text`, in the answer of a load or in its index.

    Only the runner's `tf_status=` is a verdict on the model, and even then a lack of memory is the platform's.
    """
    status = TF_STATUS.search(text)
    if status is None:
        sentence = _BOILERPLATE.sub("", bare(text)).removesuffix(";")
        return LoadFailure(FailureKind.PLATFORM, _platform_code(code), sentence)
    tensorflow_code = canonical(int(status[1]))
    kind = FailureKind.PLATFORM if tensorflow_code is Code.RESOURCE_EXHAUSTED else FailureKind.MODEL
    return LoadFailure(kind, tensorflow_code, bare(text[status.end() :]))


def from_call(error: CallError) -> LoadFailure:
    """The failure of a load whose outcome could not be asked for."""
    return LoadFailure(FailureKind.PLATFORM, error.code, error.message)


def _platform_code(code: Code) -> Code:
    """Triton answers INVALID_ARGUMENT to every failed load, also when a disk is full."""
    return Code.INTERNAL if code is Code.INVALID_ARGUMENT else code
