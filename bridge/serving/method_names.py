"""The method names of TF Serving's signatures, and the checks that --enable_signature_method_name_check turns on."""

from __future__ import annotations

from bridge.errors import Internal, InvalidArgument
from bridge.serving.routes import SignatureRoute

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


def check_predict(signature: SignatureRoute) -> None:
    """Predict runs signatures of all three kinds. Raises Internal, as TF Serving does."""
    if signature.method_name not in (PREDICT, CLASSIFY, REGRESS):
        raise Internal(
            f"Expected prediction signature method_name to be one of {{{PREDICT}, {CLASSIFY}, {REGRESS}}}. "
            f"Was: {signature.method_name}"
        )


def check_classify(signature: SignatureRoute) -> None:
    """Raises InvalidArgument."""
    _check(signature, "classification", CLASSIFY)


def check_regress(signature: SignatureRoute) -> None:
    """Raises InvalidArgument."""
    _check(signature, "regression", REGRESS)


def _check(signature: SignatureRoute, kind: str, expected: str) -> None:
    if signature.method_name != expected:
        raise InvalidArgument(f"Expected {kind} signature method_name to be {expected}. Was: {signature.method_name}")
