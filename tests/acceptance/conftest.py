from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export
from tests.support.tritonserver import TritonServer

ZOO = ("counter", "declared_one", "dtypes", "failures", "half_plus_two", "strings", "wrong_tensor_info")
"""Kinds of SavedModels, each served as version 1 of the model of its name."""

Start = Callable[..., BridgeServer]


def triton_flags(triton: TritonServer, repository: Path | str) -> list[str]:
    """The flags of a bridge that uses this Triton; `repository` may be PATH=PATH_AS_TRITON_SEES_IT."""
    return [
        f"--triton_url=127.0.0.1:{triton.grpc_port}",
        f"--triton_http_url=127.0.0.1:{triton.http_port}",
        f"--triton_repository={repository}",
    ]


@pytest.fixture(scope="session")
def client() -> Iterator[OfficialClient]:
    """The official client; its process imports TensorFlow once."""
    with OfficialClient() as client:
        yield client


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    """A server of many kinds of models that no test changes, and of `numbered` in the versions 1 and 123."""
    directory = tmp_path_factory.mktemp("zoo")
    models = directory / "models"
    entries = [Entry(kind, savedmodels.make(kind, models / kind / "1").parent) for kind in ZOO]
    export(models / "numbered", 1)
    export(models / "numbered", 123, "00000123")
    entries.append(Entry("numbered", models / "numbered", "all {}", {"stable": 1, "canary": 123, "future": 999}))
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        server.wait_for_states("numbered", {123: "AVAILABLE", 1: "AVAILABLE"})
        yield server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server of the model `numbered` in `tmp_path`/numbered, or of what the flags say; ends with the test."""
    servers: list[BridgeServer] = []

    def start(*flags: str, name: str = "bridge", ready: bool = True, **options: Any) -> BridgeServer:
        if not any(flag.startswith("--model_") for flag in flags):
            flags = ("--model_name=numbered", f"--model_base_path={tmp_path}/numbered", *flags)
        server = BridgeServer(tmp_path / name, *flags, **options)
        servers.append(server)
        return server.start() if ready else server.launch()

    yield start
    for server in servers:
        server.close()
