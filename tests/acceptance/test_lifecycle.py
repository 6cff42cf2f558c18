"""What stays served while versions come and go, under clients that never pause."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export

pytestmark = pytest.mark.integration

VERSIONS = {
    "rollover": [1],
    "broken": [1],
    "deleted": [1, 2],
    "two": [1, 2],
    "policy": [1, 2],
    "emptied": [3],
    "removed": [3],
    "returning": [3],
    "copied": [1],
}
"""The versions that each model has at the start. A test uses one model of the shared server and no other."""

POLICIES = {"two": "latest { num_versions: 2 }"}


class Place(NamedTuple):
    server: BridgeServer
    models: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("lifecycle")
    models = directory / "models"
    for model, versions in VERSIONS.items():
        for version in versions:
            export(models / model, version)
    entries = [Entry(model, models / model, POLICIES.get(model, "")) for model in VERSIONS]
    config = model_config.write(directory / "models.config", *entries)
    flags = (f"--model_config_file={config}", "--max_num_load_retries=1", "--load_retry_interval_micros=100000")
    with BridgeServer(directory / "bridge", *flags) as server:
        yield Place(server, models)


def test_a_new_version_replaces_the_old_one(place: Place, client: OfficialClient) -> None:
    with client.loop(place.server.grpc, name="rollover") as loop:
        export(place.models / "rollover", 2)
        loop.wait_for_version(2)
        place.server.wait_for_states("rollover", {2: "AVAILABLE", 1: "END"})
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [1, 2]
    answer = client.predict(place.server.grpc, [1.0], name="rollover", version=1)
    assert answer == {"code": "NOT_FOUND", "details": "Servable not found for request: Specific(rollover, 1)"}


def test_a_broken_version_leaves_the_old_one_until_a_good_one_comes(place: Place, client: OfficialClient) -> None:
    with client.loop(place.server.grpc, name="broken") as loop:
        savedmodels.make("unstable", place.models / "broken" / "2")
        place.server.wait_for_states("broken", {2: "END", 1: "AVAILABLE"})
        failed = client.ask(place.server.grpc, "status", spec={"name": "broken", "version": 2})["rows"][0]
        loop.wait_for_answers(20)
        export(place.models / "broken", 3)
        loop.wait_for_version(3)
        place.server.wait_for_states("broken", {3: "AVAILABLE", 2: "END", 1: "END"})
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [1, 3]
    assert failed[2] == 3, "the init op's INVALID_ARGUMENT"
    assert "the init op refuses" in failed[3]
    assert len(place.server.log_lines("model broken version 2 failed")) == 2, "one try and one retry"


def test_deleting_the_newest_version_brings_back_the_one_before(place: Place, client: OfficialClient) -> None:
    with client.loop(place.server.grpc, name="deleted") as loop:
        shutil.rmtree(place.models / "deleted" / "2")
        loop.wait_for_version(1)
        place.server.wait_for_states("deleted", {2: "END", 1: "AVAILABLE"})
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [2, 1]


def test_two_versions_are_kept(place: Place, client: OfficialClient) -> None:
    with client.loop(place.server.grpc, name="two", version=2) as loop:
        place.server.wait_for_states("two", {2: "AVAILABLE", 1: "AVAILABLE"})
        export(place.models / "two", 3)
        place.server.wait_for_states("two", {3: "AVAILABLE", 2: "AVAILABLE", 1: "END"})
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally


def test_another_policy_takes_effect(place: Place, client: OfficialClient) -> None:
    with client.loop(place.server.grpc, name="policy") as loop:
        for policy, version, states in (
            ({"specific": {"versions": [1]}}, 1, {2: "END", 1: "AVAILABLE"}),
            ({"latest": {"num_versions": 1}}, 2, {2: "AVAILABLE", 1: "END"}),
            ({"all": {}}, 2, {2: "AVAILABLE", 1: "AVAILABLE"}),
        ):
            assert place.server.change("PUT", "/api/v1/policy?model=policy", policy).json == {"changed": True}
            loop.wait_for_version(version)
            place.server.wait_for_states("policy", states)
        loop.wait_for_answers(20)
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [2, 1, 2]


def test_an_emptied_base_path_takes_nothing_away(place: Place, client: OfficialClient) -> None:
    with client.loop(place.server.grpc, name="emptied") as loop:
        shutil.rmtree(place.models / "emptied" / "3")
        place.server.wait_for_log("No versions of servable emptied found under base path")
        loop.wait_for_answers(20)
        export(place.models / "emptied", 4)
        loop.wait_for_version(4)
        place.server.wait_for_states("emptied", {4: "AVAILABLE", 3: "END"})
    assert loop.clean, loop.tally


def test_a_removed_base_path_takes_nothing_away(place: Place, client: OfficialClient) -> None:
    base_path = place.models / "removed"
    with client.loop(place.server.grpc, name="removed") as loop:
        shutil.rmtree(base_path)
        place.server.wait_for_log(f"Could not find base path {base_path} for servable removed")
        loop.wait_for_answers(20)
        place.server.wait_for_states("removed", {3: "AVAILABLE"})
        export(base_path, 4)
        loop.wait_for_version(4)
        place.server.wait_for_states("removed", {4: "AVAILABLE", 3: "END"})
    assert loop.clean, loop.tally


def test_a_version_that_went_may_return(place: Place, client: OfficialClient) -> None:
    directory = place.models / "returning" / "3"
    with client.loop(place.server.grpc, name="returning") as loop:
        export(place.models / "returning", 4)
        place.server.wait_for_states("returning", {4: "AVAILABLE", 3: "END"})
        shutil.rmtree(place.models / "returning" / "4")
        loop.wait_for_version(3)
        place.server.wait_for_states("returning", {4: "END", 3: "AVAILABLE"})
        loop.wait_for_answers(20)
    assert directory.is_dir()
    assert loop.clean, loop.tally


def test_a_half_copied_version_is_served_once_it_is_whole(place: Place, client: OfficialClient) -> None:
    whole = export(place.models / ".elsewhere", 2)
    directory = place.models / "copied" / "2"
    variables = Path("variables", "variables.data-00000-of-00001")
    with client.loop(place.server.grpc, name="copied") as loop:
        shutil.copytree(whole, directory, ignore=lambda folder, names: [variables.name])
        (directory / variables).write_bytes((whole / variables).read_bytes()[:5])
        [line] = place.server.wait_for_log(f"{directory} is not offered")
        loop.wait_for_answers(20)
        place.server.wait_for_states("copied", {1: "AVAILABLE"})
        shutil.copy(whole / variables, directory / variables)
        loop.wait_for_version(2)
    assert "has 5 of the 12 bytes of variables/variables.data-00000-of-00001" in line
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [1, 2]
    place.server.wait_for_states("copied", {2: "AVAILABLE", 1: "END"})


@pytest.mark.parametrize(
    ("policy", "served"),
    [("all {}", [-5, 0, 123, 2**63 - 1]), ("latest { num_versions: 3 }", [0, 123, 2**63 - 1])],
)
def test_odd_version_directories(tmp_path: Path, client: OfficialClient, policy: str, served: list[int]) -> None:
    base_path = tmp_path / "odd"
    for directory, version in (("-5", -5), ("0", 0), ("00000123", 123), (str(2**63 - 1), 2**63 - 1)):
        export(base_path, version, directory)
    export(base_path, 12, "12abc")
    config = model_config.write(tmp_path / "models.config", Entry("odd", base_path, policy))
    with BridgeServer(tmp_path / "bridge", f"--model_config_file={config}") as server:
        server.wait_for_states("odd", dict.fromkeys(served, "AVAILABLE"))
        for version in served:
            answer = client.predict(server.grpc, [2.0], name="odd", version=version)
            assert answer["spec"]["version"] == version
            assert answer["outputs"]["y"]["values"] == [1.0 + version % 1000]
            rest = server.request("GET", f"/v1/models/odd/versions/{version}")
            assert rest.status == (200 if version >= 0 else 400), "REST's pattern takes digits only"
        assert client.predict(server.grpc, [2.0], name="odd")["spec"]["version"] == max(served)
