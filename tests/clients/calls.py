"""The calls that each client of tests/clients makes on one server, and what it has to read in the answers.

A client prints {call: answer}. A failed call is [gRPC code, message]; `[name, version, signature_name]` is the
response's ModelSpec; strings of tensors are hexadecimal.
"""

from __future__ import annotations

from typing import Any

NOT_FOUND = 5
INVALID_ARGUMENT = 3

_LATEST = ["numbered", 123, "serving_default"]
_FIRST = ["numbered", 1, "serving_default"]

ANSWERS: dict[str, Any] = {
    "predict": [_LATEST, [3], [123.5, 124.0, 125.5]],
    "predict, gzip": [_LATEST, [3], [123.5, 124.0, 125.5]],
    "predict, version": [_FIRST, [3], [1.5, 2.0, 3.5]],
    "predict, label": [_FIRST, [3], [1.5, 2.0, 3.5]],
    "predict, signature": [_LATEST, [3], [123.5, 124.0, 125.5]],
    "predict, tensor_content": [_LATEST, [3, 1], [123.5, 124.0, 125.5]],
    "predict, strings": [[5, 3, 0], ["6170706c65", "62fffe", ""]],
    "classify": [["numbered", 1, "classify_x_to_y"], [["", 11.0]]],
    "regress": [["numbered", 1, "regress_x_to_y"], [41.0]],
    "multi_inference": [
        [["numbered", 123, "classify_x_to_y"], [["", 124.0]]],
        [["numbered", 123, "regress_x_to_y"], [124.0]],
    ],
    "metadata": [
        ["numbered", 123, ""],
        ["classify_x_to_y", "regress_x2_to_y3", "regress_x_to_y", "regress_x_to_y2", "serving_default"],
        "x:0",
        "DT_FLOAT",
    ],
    "status": [[123, "AVAILABLE", 0, ""], [1, "AVAILABLE", 0, ""]],
    "status, version": [[1, "AVAILABLE", 0, ""]],
    "status, unknown": [NOT_FOUND, "Could not find any versions of model no"],
    "predict, unknown model": [NOT_FOUND, "Servable not found for request: Latest(dummy_model)"],
    "predict, unknown version": [NOT_FOUND, "Servable not found for request: Specific(numbered, 7)"],
    "predict, unknown label": [INVALID_ARGUMENT, "Unrecognized servable version label: 1"],
    "reload, without labels": [0, ""],
    "predict, label taken away": [INVALID_ARGUMENT, "Unrecognized servable version label: stable"],
    "reload, with labels": [0, ""],
    "predict, label back": [_FIRST, [3], [1.5, 2.0, 3.5]],
}
"""The model `numbered` is a half_plus_two of the versions 1 and 123 whose bias is the version; 1 is `stable`."""
