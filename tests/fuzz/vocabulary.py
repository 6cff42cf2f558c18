"""What requests are made of: the names that the served models know, and the words of TF Serving's JSON."""

from __future__ import annotations

from pathlib import Path

MODEL = "numbered"
"""A half_plus_two in the versions 1 and 123, whose bias is the version."""
MODELS = (MODEL, "dtypes", "strings", "odd")
"""`odd`, whose answers fit no request, is there only where a test double runs models."""
LABEL = "stable"
SIGNATURES = (
    "serving_default",
    "classify_x_to_y",
    "regress_x_to_y",
    "regress_x_to_y2",
    "regress_x2_to_y3",
    "float",
    "string",
    "complex128",
)
ALIASES = ("x", "y", "x2", "inputs", "outputs", "scores", "classes", "words", "same", "again")
METHODS = ("tensorflow/serving/predict", "tensorflow/serving/classify", "tensorflow/serving/regress")
NAMES = (*MODELS, LABEL, *SIGNATURES, *ALIASES, *METHODS, "signature_def", "tensorflow", "")

JSON_TOKENS = (
    *(f'"{word}":' for word in ("instances", "inputs", "signature_name", "examples", "context", "b64")),
    *(f'"{name}"' for name in (*SIGNATURES, *ALIASES)),
    *("NaN", "Infinity", "-Infinity", "-NaN", "Inf", "null", "true", "false", "[]", "{}", "1e999", "-0.0", "1.0"),
    *("9223372036854775807", "-9223372036854775808", "18446744073709551615", '"\\ud800"', '"\\u0000"', "[[[[[[[["),
)
URL_TOKENS = (
    *("/v1/models", "/V1/Models/", "/versions/", "/labels/", "/metadata", ":predict", ":classify", ":regress"),
    *("%2F", "%3A", "%00", "%ff", "%", "?x=1", "#", "..", "//", "9223372036854775807", "9223372036854775808"),
    *MODELS,
    LABEL,
)


def write_dictionary(path: Path) -> Path:
    """All of it as a dictionary of libFuzzer."""
    words = [word.encode() for word in (*NAMES, *JSON_TOKENS, *URL_TOKENS) if word]
    path.write_text("".join(f'"{_escaped(word)}"\n' for word in dict.fromkeys(words)))
    return path


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)
