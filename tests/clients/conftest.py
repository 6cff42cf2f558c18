from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import export

LABELS = {"stable": 1, "canary": 123}


class Served(NamedTuple):
    server: BridgeServer
    models: Path

    def config(self, labels: Mapping[str, int]) -> str:
        return _config(self.models, labels)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """What tests/clients/calls.py asks for."""
    directory = tmp_path_factory.mktemp("clients")
    models = directory / "models"
    export(models / "numbered", 1)
    export(models / "numbered", 123, "00000123")
    savedmodels.make("strings", models / "strings" / "1")
    config = directory / "models.config"
    config.write_text(_config(models, LABELS))
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        yield Served(server, models)


def _config(models: Path, labels: Mapping[str, int]) -> str:
    numbered = Entry("numbered", models / "numbered", "all {}", labels)
    return model_config.text(numbered, Entry("strings", models / "strings"))
