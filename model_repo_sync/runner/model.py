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

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Mark the model: Triton asks only where it runs without --disable-auto-complete-config.

        That costs every load a second process for nothing, and the mark is the one way to notice it from outside.
        """
        config.add_output({"name": "bridge.auto_complete", "data_type": "TYPE_UINT8", "dims": [1]})
        return config

    def initialize(self, args: Mapping[str, str]) -> None:
        self._backend = Backend.load(args)

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        return self._backend.execute(requests)

    def finalize(self) -> None:
        self._backend.close()
