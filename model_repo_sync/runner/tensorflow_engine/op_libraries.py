"""Libraries with custom ops, for SavedModels whose graphs use them."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path

from .errors import PlatformError, StatusError
from .library import Library, Status

logger = logging.getLogger(__name__)

TEXT_PACKAGE = "tensorflow_text"
UNKNOWN_OP = "Op type not registered"
"""In TensorFlow's refusal of a graph with an op that it does not know."""


def load(library: Library, paths: Sequence[str]) -> None:
    """Register the ops and kernels of the files `paths`. Raises PlatformError, naming the file that fails."""
    for path in paths:
        try:
            _load(library, path)
        except StatusError as error:
            raise PlatformError(f"The op library {path} cannot be loaded: {error.text}") from error


def load_tensorflow_text(library: Library) -> bool:
    """Register TensorFlow Text, which TF Serving links, where its package is installed; whether there is any of it.

    A release of it may hold files that fit no TensorFlow; the others serve all the same.
    """
    loaded = 0
    for path in find_tensorflow_text():
        try:
            _load(library, str(path))
            loaded += 1
        except StatusError as error:
            logger.warning("The op library %s cannot be loaded: %s", path, error.text)
    return loaded > 0


def find_tensorflow_text() -> list[Path]:
    """The files with ops of TensorFlow Text. Imports nothing."""
    spec = importlib.util.find_spec(TEXT_PACKAGE)
    if spec is None or spec.origin is None:
        return []
    # Beside them lie bindings for Python, which need a process with tensorflow imported.
    return sorted((Path(spec.origin).parent / "python").rglob("_*.so"))


def is_missing(error: StatusError) -> bool:
    """Whether TensorFlow refused a SavedModel for an op that some library may have."""
    return UNKNOWN_OP in error.text


def _load(library: Library, path: str) -> None:
    status = Status(library)
    library.load_library(path.encode(), status.pointer)
    status.check()
