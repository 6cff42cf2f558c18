"""Text format and JSON of messages; types inside Any are found in the private pool."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf import json_format, text_format
from google.protobuf.message import Message

from model_repo_sync.protos import POOL

M = TypeVar("M", bound=Message)


class TextFormatError(ValueError):
    """A text that is no message of the wanted type. `line` and `column` count from 1; 0 where the place is unknown."""

    def __init__(self, source: str, line: int, column: int, reason: str) -> None:
        place = f"{source}:{line}:{column}" if line else source
        super().__init__(f"{place}: {reason}")
        self.source = source
        self.line = line
        self.column = column
        self.reason = reason


def from_text(text: str, message_type: type[M], source: str = "<text>") -> M:
    """Parse text format. `source` names the text in errors, a path as a rule. Raises TextFormatError."""
    message = message_type()
    try:
        text_format.Parse(text, message, descriptor_pool=POOL)
    except text_format.ParseError as error:
        line, column = error.GetLine() or 0, error.GetColumn() or 0
        reason = str(error).removeprefix(f"{line}:{column} : ")
        raise TextFormatError(source, line, column, reason) from error
    return message


def to_text(message: Message) -> str:
    """Text format, one field a line; an Any of a known type is expanded."""
    return text_format.MessageToString(message, descriptor_pool=POOL)


def to_dict(message: Message, **options: Any) -> dict[str, Any]:
    """The JSON form as a dict. `options` are those of `google.protobuf.json_format.MessageToDict`."""
    return json_format.MessageToDict(message, descriptor_pool=POOL, **options)


def from_dict(content: dict[str, Any], message_type: type[M]) -> M:
    """The inverse of `to_dict`. Raises `google.protobuf.json_format.ParseError`."""
    return json_format.ParseDict(content, message_type(), descriptor_pool=POOL)
