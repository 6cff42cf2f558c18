"""200 registered models on two Tritons with room for 10 each: loaded on demand, kept as an LRU cache would."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.acceptance.conftest import triton_flags
from tests.support import processes
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import export
from tests.support.tritonserver import TritonServer, backend_directory

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

MODELS, ROOM = 200, 10
MODEL_BYTES = 62_000_000
"""About what the runner of a small model takes; a few per cent more or less leave room for as many."""
RESERVE = MODEL_BYTES
CAPACITY = int((ROOM + 0.5) * MODEL_BYTES) + RESERVE
LONG, SAMPLE = 2000, 500
RSS_TOLERANCE = 0.05
HIT_TOLERANCE = 0.03


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BridgeServer]:
    backends = backend_directory(tmp_path / "backends")
    export(tmp_path / "models" / "m", 1)
    one, two = tmp_path / "one", tmp_path / "two"
    with TritonServer.start(backends, one) as first, TritonServer.start(backends, two) as second:
        flags = [f"--model_root={tmp_path / 'models'}", *triton_flags(first, one), *triton_flags(second, two)]
        flags += [f"--triton_capacity_bytes={CAPACITY}", f"--modelmesh_default_model_bytes={MODEL_BYTES}"]
        with BridgeServer(tmp_path / "bridge", *flags, "--modelmesh_second_copies=false") as server:
            server.wait_for_instances()
            yield server
        first.process.kill()
        second.process.kill()


@pytest.mark.parametrize("requests", [300, pytest.param(LONG, marks=pytest.mark.slow)])
def test_a_cache_of_models(server: BridgeServer, tmp_path: Path, requests: int) -> None:
    trace = _zipf(requests)
    hits, memory = 0, []
    client = grpcclient.InferenceServerClient(server.modelmesh)
    x = grpcclient.InferInput("x", [1], "FP32")
    x.set_data_from_numpy(np.ones(1, np.float32))
    with ModelMeshClient(server.modelmesh) as mesh:
        for model in sorted({*trace, *_models()}):
            mesh("registerModel", modelId=model, modelInfo={"type": "tensorflow", "path": "m"})
        for number, model in enumerate(trace, start=1):
            hits += mesh.model(model) == "LOADED"
            assert client.infer(model, [x], client_timeout=60).as_numpy("y") == [1.5]
            assert len(mesh("getModelStatus", modelId=model).modelCopyInfos) == 1, "loaded once"
            if number % SAMPLE == 0:
                memory.append(sum(process.status("VmRSS") for process in processes.naming(str(tmp_path))))
    client.close()
    simulated = _simulated_hits(trace)
    print(f"{hits} hits of {requests}, {simulated} by a simulation; resident kB {memory}")
    assert abs(hits - simulated) / requests <= HIT_TOLERANCE
    if requests == LONG:
        assert abs(memory[-1] - memory[0]) <= RSS_TOLERANCE * memory[0]


def _models() -> list[str]:
    return [f"m{number}" for number in range(MODELS)]


def _zipf(requests: int) -> list[str]:
    weights = [1 / rank for rank in range(1, MODELS + 1)]
    return Random(7).choices(_models(), weights, k=requests)


def _simulated_hits(trace: Sequence[str]) -> int:
    """Two LRU caches; a miss goes to the one with more room, then to the one whose oldest model is older."""
    caches: list[OrderedDict[str, int]] = [OrderedDict(), OrderedDict()]
    hits = 0
    for time, model in enumerate(trace):
        holder = next((cache for cache in caches if model in cache), None)
        if holder is not None:
            hits += 1
            holder.move_to_end(model)
        else:
            holder = min(caches, key=lambda cache: (len(cache), next(iter(cache.values()), 0)))
            if len(holder) == ROOM:
                holder.popitem(last=False)
        holder[model] = time
    return hits
