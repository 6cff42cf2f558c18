"""The two kinds of failure: TensorFlow or the request is at fault, or the platform is."""

from __future__ import annotations

CANCELLED = 1
INVALID_ARGUMENT = 3
NOT_FOUND = 5
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14


class StatusError(Exception):
    """TensorFlow's verdict on a model or a request, or ours where TensorFlow would have crashed.

    `code` is TensorFlow's error code and `text` its message. As a string it reads `tf_status=<code> <text>`: Triton has
    fewer codes than TensorFlow, so the client's code travels in the text.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"tf_status={code} {text}")
        self.code = code
        self.text = text


class PlatformError(Exception):
    """The runner cannot work here, whatever the model; the text is one sentence with the cure."""
