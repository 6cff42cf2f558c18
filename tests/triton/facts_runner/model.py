"""A Triton model that answers what its process looks like; a parameter makes its start slow."""

from __future__ import annotations

import json
import os
import ssl
import sys
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def facts() -> dict[str, object]:
    with open("/proc/self/maps") as maps:
        libpython = {line.split()[-1] for line in maps if "/libpython3." in line}
    return {
        "pid": os.getpid(),
        "prefix": sys.prefix,
        "path": sys.path,
        "cwd": os.getcwd(),
        "libpython": sorted(libpython),
        "numpy": np.__version__,
        "openssl": ssl.OPENSSL_VERSION,
        "environment": dict(os.environ),
    }


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        time.sleep(float(parameters["seconds"]["string_value"]))

    def execute(self, requests: list[object]) -> list[object]:
        answer = np.array([json.dumps(facts()).encode()], dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("facts", answer)]) for _ in requests]
