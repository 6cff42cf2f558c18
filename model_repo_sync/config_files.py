"""Reads TF Serving's configuration files in protobuf text format, as strictly as TF Serving does."""

from __future__ import annotations

import errno
import os
from typing import TypeVar

from google.protobuf.message import Message

from model_repo_sync.protos.tensorflow import error_codes_pb2
from model_repo_sync.protos.tensorflow_serving import model_server_config_pb2
from model_repo_sync.protos.text import TextFormatError, from_text

M = TypeVar("M", bound=Message)

_CODES = {errno.ENOENT: error_codes_pb2.NOT_FOUND, errno.EACCES: error_codes_pb2.PERMISSION_DENIED}
"""As TensorFlow's file system maps errors; others are FAILED_PRECONDITION."""


class ConfigFileError(Exception):
    """A configuration file that cannot be used: canonical code, TF Serving's sentence, and where the fault is.

    `detail` is the parser's `line:column: reason`, empty where the file could not be read at all.
    """

    def __init__(self, code: int, message: str, detail: str = "") -> None:
        super().__init__(f"{message}: {detail}" if detail else message)
        self.code = code
        self.message = message
        self.detail = detail


def read_model_config_file(path: str) -> model_server_config_pb2.ModelServerConfig:
    """The ModelServerConfig in `path`. Raises ConfigFileError."""
    return read_text_proto(path, model_server_config_pb2.ModelServerConfig)


def parse_model_config(text: str, path: str) -> model_server_config_pb2.ModelServerConfig:
    """The ModelServerConfig in `text`, which came from `path`. Raises ConfigFileError."""
    return parse_text_proto(text, model_server_config_pb2.ModelServerConfig, path)


def read_text_proto(path: str, message_type: type[M]) -> M:
    """The message of `message_type` in `path`. Raises ConfigFileError."""
    return parse_text_proto(_read(path), message_type, path)


def parse_text_proto(text: str, message_type: type[M], path: str) -> M:
    """The message of `message_type` in `text`, which came from `path`. Raises ConfigFileError."""
    try:
        return from_text(text, message_type, path)
    except TextFormatError as error:
        detail = f"{error.line}:{error.column}: {error.reason}" if error.line else error.reason
        message = f"Invalid protobuf file: '{path}'"
        raise ConfigFileError(error_codes_pb2.INVALID_ARGUMENT, message, detail) from error


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        code = _CODES.get(error.errno or 0, error_codes_pb2.FAILED_PRECONDITION)
        raise ConfigFileError(code, f"{path}; {error.strerror}") from error
    if not data:
        # TF Serving maps the file into memory, which fails for no bytes; a comment alone is an empty configuration.
        raise ConfigFileError(error_codes_pb2.INVALID_ARGUMENT, f"{path}; {os.strerror(errno.EINVAL)}")
    return data.decode("utf-8", "replace")
