"""Short runs of what `make fuzz` does at length, and the inputs that they find on a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import grpc
import pytest

from model_repo_sync.protos.tensorflow_serving.model_management_pb2 import ReloadConfigRequest
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig
from model_repo_sync.protos.text import from_text
from tests.fuzz.mutators import mutate_message
from tests.fuzz.surfaces import LEAKS
from tests.fuzz.vocabulary import LABEL, MODEL
from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export

pytest.importorskip("atheris", reason="Atheris has no wheel for this platform")

SEED = 1
SHORT = 4000
ON_A_REAL_SERVER = 2000
RUN_SECONDS = 100.0
RELOADS = 150
RELOAD_SECONDS = 1.0
RELOAD_CODES = {"OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "UNKNOWN", "DEADLINE_EXCEEDED"}
SURFACES = ("grpc", "rest", "url", "v2_grpc", "v2_rest")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the inputs of each surface that reached something new."""
    return tmp_path_factory.mktemp("kept")


def fuzz(surface: str, inputs: int, kept: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", surface, f"--seed={SEED}", f"--inputs={inputs}"]
    command += [f"--keep={kept / surface}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    [said] = re.findall(rf"^{surface}: {inputs} inputs in .*", done.stdout, re.MULTILINE)
    print(said)


@pytest.mark.parametrize("surface", SURFACES)
def test_no_input_gets_an_answer_that_tf_serving_does_not_give(surface: str, kept: Path) -> None:
    fuzz(surface, SHORT, kept)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    """The models of tests.fuzz.vocabulary on a real Triton."""
    directory = tmp_path_factory.mktemp("fuzzed")
    models = directory / "models"
    for version in (1, 123):
        export(models / MODEL, version)
    entries = [Entry(MODEL, models / MODEL, "all {}", {LABEL: 1})]
    entries += [Entry(kind, savedmodels.make(kind, models / kind / "1").parent) for kind in ("dtypes", "strings")]
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        yield server


@pytest.mark.integration
@pytest.mark.parametrize("surface", SURFACES)
def test_nor_does_a_real_server_give_one(surface: str, kept: Path, real: BridgeServer) -> None:
    address = real.grpc if surface.endswith("grpc") else real.rest
    before = {process.pid for process in real.processes()}
    fuzz(surface, ON_A_REAL_SERVER, kept, f"--to={address}")
    assert {process.pid for process in real.processes()} == before, real.tail()
    assert not [line for line in real.log.read_text().splitlines() if " ERROR " in line or "Traceback" in line]


@pytest.mark.integration
def test_reloads_of_any_kind_leave_a_server_that_reloads(tmp_path: Path) -> None:
    export(tmp_path / MODEL, 1)
    good = model_config.text(Entry(MODEL, tmp_path / MODEL))
    chance, codes = Random(SEED), Counter[str]()
    flags = (f"--model_name={MODEL}", f"--model_base_path={tmp_path / MODEL}")
    with BridgeServer(tmp_path / "bridge", *flags) as server, OfficialClient() as client:
        with grpc.insecure_channel(server.grpc) as channel:
            call = channel.unary_unary("/tensorflow.serving.ModelService/HandleReloadConfigRequest")
            for _ in range(RELOADS):
                request = ReloadConfigRequest(config=from_text(good, ModelServerConfig))
                for _ in range(chance.choice((1, 2, 4))):
                    mutate_message(request, chance)
                codes[_code(call, request.SerializeToString())] += 1
        print(f"{RELOADS} reloads, seed {SEED}: {codes}")
        assert codes.keys() <= RELOAD_CODES, codes
        assert client.ask(server.grpc, "reload", config=good, timeout=30)["status"] == [0, ""]
        assert client.predict(server.grpc, [1.0], name=MODEL)["outputs"]["y"]["values"] == [1.5]
        assert not server.log_lines("Traceback")


def _code(call: grpc.UnaryUnaryMultiCallable, request: bytes) -> str:
    try:
        call(request, timeout=RELOAD_SECONDS)
    except grpc.RpcError as error:
        return "a leak" if any(leak in error.details() for leak in LEAKS) else str(error.code().name)
    return "OK"
