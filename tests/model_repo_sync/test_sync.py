from __future__ import annotations

import os
from pathlib import Path

import pytest

from model_repo_sync import names
from model_repo_sync.policy import All, Latest, Specific
from model_repo_sync.repository import ModelRepository
from model_repo_sync.source_cache import DownloadError
from model_repo_sync.sources import BasePathError
from model_repo_sync.sync import Synchroniser
from model_repo_sync.triton_config import RunnerOptions
from tests.model_repo_sync.builders import GraphBuilder, write
from tests.support.object_stores import Bucket

DEPLOYMENT = "0123abcd"


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    for name in ("1", "02", "-5", "junk"):
        write(tmp_path / "base" / name)
    return tmp_path / "base"


@pytest.fixture
def synchroniser(tmp_path: Path) -> Synchroniser:
    return Synchroniser(ModelRepository(tmp_path / "repository", DEPLOYMENT), RunnerOptions())


def name(version: int, model: str = "m") -> str:
    return names.servable_name(DEPLOYMENT, model, version)


def test_versions_are_written_once(tmp_path: Path, base_path: Path, synchroniser: Synchroniser) -> None:
    first = synchroniser.sync("m", str(base_path), All())
    assert [(result.version, result.outcome) for result in first.versions] == [
        (-5, "written"), (1, "written"), (2, "written"),
    ]  # fmt: skip
    assert sorted(os.listdir(tmp_path / "repository")) == sorted(map(name, (-5, 1, 2)))
    again = synchroniser.sync("m", str(base_path), All())
    assert {result.outcome for result in again.versions} == {"unchanged"}
    assert not again.failed


def test_only_the_own_unwanted_versions_are_deleted_and_only_on_demand(
    base_path: Path, synchroniser: Synchroniser
) -> None:
    synchroniser.sync("m", str(base_path), All())
    synchroniser.sync("other", str(base_path), Latest())
    assert synchroniser.sync("m", str(base_path), Latest()).removed == ()
    assert synchroniser.sync("m", str(base_path), Latest(), delete=True).removed == (name(-5), name(1))
    assert synchroniser.sync("other", str(base_path), Latest()).versions[0].outcome == "unchanged"


def test_a_source_that_offers_nothing_deletes_nothing(
    tmp_path: Path, base_path: Path, synchroniser: Synchroniser
) -> None:
    synchroniser.sync("m", str(base_path), Latest())
    (base_path / "02" / "saved_model.pb").write_bytes(b"")
    report = synchroniser.sync("m", str(base_path), Specific((2,)), delete=True)
    assert (report.versions, report.removed, report.failed) == ((), (), True)
    with pytest.raises(BasePathError):
        synchroniser.sync("m", str(tmp_path / "missing"), Latest(), delete=True)
    assert os.listdir(tmp_path / "repository") == [name(2)]


def test_a_version_that_cannot_be_served_does_not_stop_the_others(base_path: Path, synchroniser: Synchroniser) -> None:
    write(base_path / "3", GraphBuilder(tags=("train",)))
    report = synchroniser.sync("m", str(base_path), Latest(2))
    assert [(result.version, result.outcome) for result in report.versions] == [(2, "written"), (3, "failed")]
    assert report.versions[1].error.startswith("Could not find meta graph def matching supplied tags: { serve }.")
    assert report.failed


def test_versions_come_from_an_object_store(tmp_path: Path, base_path: Path, synchroniser: Synchroniser) -> None:
    Bucket("memory://sync").upload(base_path, "m")
    first = synchroniser.sync("m", "memory://sync/m", All())
    assert [(result.version, result.path, result.outcome, result.error) for result in first.versions] == [
        (-5, "memory://sync/m/-5", "written", ""),
        (1, "memory://sync/m/1", "written", ""),
        (2, "memory://sync/m/02", "written", ""),
    ]
    content = tmp_path / "repository" / name(2) / "1" / "model.savedmodel" / "saved_model.pb"
    assert content.read_bytes() == (base_path / "02" / "saved_model.pb").read_bytes()
    copies = list((tmp_path / "repository" / ".sources").rglob("saved_model.pb"))
    inodes = {copy.stat().st_ino for copy in copies}
    assert content.stat().st_ino in inodes, "linked"
    again = synchroniser.sync("m", "memory://sync/m", All())
    assert {result.outcome for result in again.versions} == {"unchanged"}
    assert {copy.stat().st_ino for copy in copies} == inodes, "not downloaded again"


def test_a_download_that_fails_is_told(
    base_path: Path, synchroniser: Synchroniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bucket("memory://full").upload(base_path, "m")

    def full(url: str) -> str:
        raise DownloadError("a download needs 9 bytes on the disk of /r, which has 1 free")

    monkeypatch.setattr(synchroniser._copies, "fetch", full)
    report = synchroniser.sync("m", "memory://full/m", Latest())
    assert [result.error for result in report.versions] == [
        "memory://full/m/02 could not be downloaded: a download needs 9 bytes on the disk of /r, which has 1 free."
    ]
    assert report.failed
