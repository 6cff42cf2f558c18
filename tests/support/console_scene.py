"""A real bridge with something to see in its console: models, labels, a vmodel, a failure, and who did what and why.

with Scene(directory) as scene:
    scene.address            # http://127.0.0.1:PORT
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from tests.support import model_config
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.modelmesh_client import ModelMeshClient
from tests.support.official_client import export
from tests.support.waiting import wait_for

MANAGER, VIEWER, CALLER, EXPIRED = "token-of-anna", "token-of-ben", "token-of-an-app", "token-of-last-year"
IDENTITIES = (
    {"name": "anna", "token": MANAGER, "scopes": ["read", "manage"]},
    {"name": "ben", "token": VIEWER, "scopes": ["read"]},
    {"name": "app", "token": CALLER, "scopes": ["inference"]},
    {"name": "old", "token": EXPIRED, "scopes": ["read"], "expires": "2020-01-01T00:00:00Z"},
)
SECONDS = 30.0


class Scene:
    """`recommender` has the versions 1 to 3 behind it and serves two of them, `fraud-score` one of which the next one
    is broken, `ranking` is a vmodel. `more` are further models of version 1."""

    def __init__(self, directory: Path, *more: str) -> None:
        self.models = directory / "models"
        self.tokens = directory / "tokens.json"
        directory.mkdir(parents=True, exist_ok=True)
        self.tokens.write_text(json.dumps({"identities": IDENTITIES}))
        self.tokens.chmod(0o600)
        for name in ("recommender", "fraud-score", "ranking-a", "ranking-b"):
            export(self.models / name, 1)
        config = model_config.write(
            directory / "models.config",
            Entry("recommender", self.models / "recommender", "latest { num_versions: 2 }"),
            Entry("fraud-score", self.models / "fraud-score"),
            *(Entry(name, self.models / "ranking-a") for name in more),
        )
        self.server = BridgeServer(
            directory / "bridge",
            f"--model_config_file={config}",
            f"--access_token_file={self.tokens}",
            f"--model_root={self.models}",
            "--file_system_poll_wait_seconds=1",
            "--max_num_load_retries=0",
            "--triton_capacity_bytes=4294967296",
        )

    @property
    def address(self) -> str:
        return f"http://{self.server.admin}"

    def play(self) -> None:
        """What happened until the curtain rises."""
        self.drop("recommender", 2)
        self.label("stable", 1, "the version that was tested longest")
        self.drop("recommender", 3)
        self.label("canary", 3, "a tenth of the traffic")
        self.label("stable", 2, "no complaints for a week")
        self._break("fraud-score", 2)
        client = ModelMeshClient(self.server.modelmesh)
        for name in ("ranking-a", "ranking-b"):
            info = {"type": "tensorflow", "path": f"{self.models / name / '1'}"}
            client("setVModel", vModelId="ranking", targetModelId=name, modelInfo=info, loadNow=True, sync=True)

    def drop(self, model: str, version: int) -> None:
        """A new version appears in the base path; returns when it serves."""
        staged = export(self.models / "staged", version)
        staged.rename(self.models / model / str(version))
        wait_for(lambda: self.server.states(model).get(version) == "AVAILABLE", SECONDS, f"{model} serves {version}")

    def label(self, label: str, version: int, reason: str, model: str = "recommender") -> None:
        """anna points a label at a version."""
        self.change("PUT", f"/api/v1/label?model={quote(model)}&label={quote(label)}", {"version": version}, reason)

    def change(self, method: str, target: str, body: Any = None, reason: str = "") -> Any:
        """What the admin API answers to anna."""
        headers = {"authorization": f"Bearer {MANAGER}", "x-audit-reason": reason}
        answer = self.server.request(
            method, target, None if body is None else json.dumps(body), headers=headers, to=self.server.admin
        )
        assert answer.status == 200, answer
        return answer.json

    def _break(self, model: str, version: int) -> None:
        """A version without a graph for serving appears; returns when it has failed."""
        broken = export(self.models / "staged", version)
        graph = broken / "saved_model.pb"
        # Tags of the same length, so that the file stays whole.
        graph.write_bytes(graph.read_bytes().replace(b"\x05serve", b"\x05train"))
        broken.rename(self.models / model / str(version))
        wait_for(lambda: self.server.states(model).get(version) == "END", SECONDS, f"{model} {version} ended")

    def __enter__(self) -> Self:
        self.server.__enter__()
        try:
            self.play()
        except BaseException:
            self.server.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.server.__exit__(kind, error, traceback)
