"""Reads the text-format files that flags name, with TF Serving's errors."""

from __future__ import annotations

import logging
from typing import TypeVar

from google.protobuf.message import Message

from bridge.errors import BridgeError, Code
from model_repo_sync.config_files import ConfigFileError, read_text_proto

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)


def read(path: str, message_type: type[M]) -> M:
    """The message in `path`.

    Raises BridgeError: `<path>; <reason>` where it cannot be read, `Invalid protobuf file: '<path>'` where it cannot be
    parsed; as in TF Serving the place of the fault is told by the log alone.
    """
    try:
        return read_text_proto(path, message_type)
    except ConfigFileError as error:
        if error.detail:
            logger.error("Error parsing text-format %s: %s", message_type.DESCRIPTOR.full_name, error.detail)
        raise BridgeError(error.message, Code(error.code)) from error
