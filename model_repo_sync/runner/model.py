"""What Triton loads: the entry of the python-based backend `tensorflow_runner`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Triton names this file only; its package lies beside it, also where the file is a link.
sys.path.insert(0, str(Path(__file__).resolve().parent))

if TYPE_CHECKING:
    from model_repo_sync.runner.tensorflow_engine.backend import Backend
else:
    from tensorflow_engine.backend import Backend


class TritonPythonModel:
    """One instance of one Triton model, in a process of its own."""

    def initialize(self, args: Mapping[str, str]) -> None:
        self._backend = Backend.load(args)

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        return self._backend.execute(requests)

    def finalize(self) -> None:
        self._backend.close()
