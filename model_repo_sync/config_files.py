"""Reads TF Serving's configuration files in protobuf text format, as strictly as TF Serving does."""

from __future__ import annotations

import errno
import os

from model_repo_sync.protos.tensorflow import error_codes_pb2
from model_repo_sync.protos.tensorflow_serving import model_server_config_pb2
from model_repo_sync.protos.text import TextFormatError, from_text


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
    return parse_model_config(_read(path), path)


def parse_model_config(text: str, path: str) -> model_server_config_pb2.ModelServerConfig:
    """The ModelServerConfig in `text`, which came from `path`. Raises ConfigFileError."""
    try:
        return from_text(text, model_server_config_pb2.ModelServerConfig, path)
    except TextFormatError as error:
        detail = f"{error.line}:{error.column}: {error.reason}" if error.line else error.reason
        message = f"Invalid protobuf file: '{path}'"
        raise ConfigFileError(error_codes_pb2.INVALID_ARGUMENT, message, detail) from error


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        code = error_codes_pb2.NOT_FOUND if error.errno == errno.ENOENT else error_codes_pb2.FAILED_PRECONDITION
        raise ConfigFileError(code, f"{path}; {error.strerror}") from error
    if not data:
        # TF Serving maps the file into memory, which fails for no bytes; a comment alone is an empty configuration.
        raise ConfigFileError(error_codes_pb2.INVALID_ARGUMENT, f"{path}; {os.strerror(errno.EINVAL)}")
    return data.decode("utf-8", "replace")
