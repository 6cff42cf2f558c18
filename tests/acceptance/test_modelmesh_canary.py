"""A canary over vmodels: a good target, a broken one and the way back, under clients that never pause."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Self

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.acceptance.conftest import triton_flags
from tests.support.bridge_server import BridgeServer
from tests.support.modelmesh_client import VMODEL, ModelMeshClient
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer, backend_directory
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BridgeServer]:
    backends = backend_directory(tmp_path / "backends")
    for version in (1, 2):
        export(tmp_path / "models" / f"m{version}", version)
    broken = tmp_path / "models" / "m3" / "3"
    broken.mkdir(parents=True)
    (broken / "saved_model.pb").write_bytes(b"no SavedModel")
    one, two = tmp_path / "one", tmp_path / "two"
    with TritonServer.start(backends, one) as first, TritonServer.start(backends, two) as second:
        flags = [f"--model_root={tmp_path / 'models'}", *triton_flags(first, one), *triton_flags(second, two)]
        with BridgeServer(tmp_path / "bridge", *flags) as server:
            server.wait_for_instances()
            yield server
        first.process.kill()
        second.process.kill()


class V2Loop:
    """A client of KServe V2 in a thread that never pauses; it notes each answer and each failure."""

    def __init__(self, address: str, model: str) -> None:
        self.answers: list[float] = []
        self.failures: list[str] = []
        self._client = grpcclient.InferenceServerClient(address)
        self._model = model
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def story(self) -> list[float]:
        """The answers without their repetitions."""
        return [answer for answer, _ in groupby(self.answers)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        x = grpcclient.InferInput("x", [1], "FP32")
        x.set_data_from_numpy(np.zeros(1, np.float32))
        while not self._stop.is_set():
            try:
                response = self._client.infer(self._model, [x])
                assert response.get_response().model_name == self._model
                self.answers.append(float(response.as_numpy("y")[0]))
            except Exception as error:
                self.failures.append(repr(error))


def _info(version: int) -> dict[str, str]:
    return {"type": "tensorflow", "path": f"m{version}"}


def test_a_canary(server: BridgeServer, client: OfficialClient) -> None:
    wanted = {"vModelId": "v", "autoDeleteTargetModel": True, "sync": True}
    with ModelMeshClient(server.modelmesh) as mesh:
        mesh("registerModel", modelId="v1", modelInfo=_info(1), loadNow=True, sync=True)
        mesh("setVModel", vModelId="v", targetModelId="v1")
        with (
            client.loop(server.modelmesh, name="v") as inner,
            client.loop(server.grpc, name="v") as outer,
            V2Loop(server.modelmesh, "v") as v2,
        ):
            moved = mesh("setVModel", **wanted, targetModelId="v2", modelInfo=_info(2))
            assert (VMODEL(moved.status), moved.activeModelId) == ("DEFINED", "v2")
            inner.wait_for_version(2)
            outer.wait_for_version(2)
            broken = mesh("setVModel", **wanted, targetModelId="v3", modelInfo=_info(3))
            assert (VMODEL(broken.status), broken.activeModelId) == ("TRANSITION_FAILED", "v2")
            inner.wait_for_answers(20)
            back = mesh("setVModel", vModelId="v", targetModelId="v1", sync=True)
            assert (VMODEL(back.status), back.activeModelId) == ("DEFINED", "v1")
            inner.wait_for_version(1)
            outer.wait_for_version(1)
            wait_for(lambda: v2.story == [1.0, 2.0, 1.0] or v2.failures, 10, "V2 clients are back")
            gone = wait_for(lambda: mesh.model("v2") == mesh.model("v3") == "NOT_FOUND", 10, "v2 and v3 are deleted")
            assert gone
    assert (v2.story, v2.failures) == ([1.0, 2.0, 1.0], [])
    for loop in (inner, outer):
        assert loop.clean, loop.tally
        assert loop.tally["versions"] == [1, 2, 1]
    assert _story(server, "vmodel:v") == [
        ("vmodel created", "v1", "v1"),
        ("vmodel transition started", "v1", "v2"),
        ("vmodel promoted", "v2", "v2"),
        ("vmodel transition started", "v2", "v3"),
        ("vmodel transition failed", "v2", "v3"),
        *BACK,
    ]
    assert [event["action"] for event in server.changes("model:v3")] == [
        "model registered",
        "load failed",
        "load failed",
        "model auto-deleted",
    ]


BACK = [("vmodel promoted", "v1", "v1")]
"""v1 was still loaded, so that it took over at once."""


def _story(server: BridgeServer, subject: str) -> list[tuple[str, str, str]]:
    events = server.changes(subject)
    return [(event["action"], event["after"]["active"], event["after"]["target"]) for event in events]
