"""A Triton backend for the tests of the transports: every input `in.<DATATYPE>` comes back as `out.<DATATYPE>`.

Request parameters steer it: `shape` (JSON) reshapes the outputs, `sleep` waits seconds, `error` (`<TritonError code
name> <text>`) fails the request, `raise` raises, `exit` kills the process.
"""

import json
import os
import time

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        parameters = json.loads(request.parameters() or "{}")
        time.sleep(float(parameters.get("sleep", 0)))
        if "exit" in parameters:
            os._exit(1)
        if "raise" in parameters:
            raise RuntimeError(parameters["raise"])
        if "error" in parameters:
            code, _, text = parameters["error"].partition(" ")
            return pb.InferenceResponse(error=pb.TritonError(text, getattr(pb.TritonError, code)))
        inputs = {tensor.name(): tensor for tensor in request.inputs()}
        names = request.requested_output_names()
        return pb.InferenceResponse([self._output(name, inputs, parameters) for name in names])

    def _output(self, name, inputs, parameters):
        tensor = inputs["in." + name.removeprefix("out.")]
        if name == "out.BF16":
            return pb.Tensor.from_dlpack(name, tensor.to_dlpack())
        array = tensor.as_numpy()
        if "shape" in parameters:
            array = array.reshape(json.loads(parameters["shape"]))
        return pb.Tensor(name, array)
