"""The least that a model on Triton's Python backend can do: it answers with its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests: Sequence[Any]) -> list[Any]:
        return [
            pb.InferenceResponse([pb.Tensor("y", pb.get_input_tensor_by_name(r, "x").as_numpy())]) for r in requests
        ]
