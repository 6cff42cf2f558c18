"""Ready Triton models of the Python backend: one that answers once, one that answers often, one with sequences."""

from __future__ import annotations

from pathlib import Path

_DOUBLE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.double(request)]) for request in requests]

    def double(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if (x < 0).any():
            raise pb_utils.TritonModelException("x is negative")
        return pb_utils.Tensor("y", x + x)
"""

_REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in pb_utils.get_input_tensor_by_name(request, "x").as_numpy().ravel():
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([value], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

_SUM = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.totals = {}

    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.add(request)]) for request in requests]

    def add(self, request):
        value = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]
        id, start, x = value("id"), value("start"), value("x")
        self.totals[id] = x if start else self.totals[id] + x
        return pb_utils.Tensor("y", np.array([self.totals[id]], np.float32))
"""

_SEQUENCES = """
sequence_batching {
  control_input { name: "start" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }
  control_input { name: "id" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
}
"""
_MODELS = {
    "double": (_DOUBLE, ""),
    "repeat": (_REPEAT, "model_transaction_policy { decoupled: true }"),
    "sum": (_SUM, _SEQUENCES),
}


def write(repository: Path, kind: str, name: str) -> None:
    """A model `name` of that kind: input `x` and output `y`, vectors of FP32."""
    program, extra = _MODELS[kind]
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(program)
    (repository / name / "config.pbtxt").write_text(
        f'name: "{name}"\nbackend: "python"\nmax_batch_size: 0\n'
        'input { name: "x" data_type: TYPE_FP32 dims: [-1] }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: [-1] }\n'
        f"instance_group {{ count: 1 kind: KIND_CPU }}\n{extra}\n"
    )
