"""Contents that are kept beside the model repository."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from model_repo_sync.kept import KeptContent, KeptContents
from model_repo_sync.transfer import TransferError, TransferMode


def content(version: int, digit: str, served_at: int = 0, model: str = "a/b") -> KeptContent:
    return KeptContent(model, version, digit * 64, f"/models/{version}", served_at)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    (directory / "variables").mkdir(parents=True)
    (directory / "saved_model.pb").write_bytes(b"graph")
    (directory / "variables" / "variables.index").write_bytes(b"index")
    return directory


@pytest.fixture
def kept(tmp_path: Path) -> KeptContents:
    return KeptContents(tmp_path / "kept", TransferMode.AUTO)


def test_a_content_outlives_its_source(kept: KeptContents, source: Path) -> None:
    one = content(1, "a")
    assert kept.find("a/b", 1, one.sha256) is None
    assert kept.keep(one, str(source), own=False)
    shutil.rmtree(source)
    assert kept.find("a/b", 1, one.sha256) == one
    assert (Path(kept.path("a/b", 1, one.sha256)) / "variables" / "variables.index").read_bytes() == b"index"


def test_files_of_others_are_copied_where_that_is_wanted(tmp_path: Path, source: Path) -> None:
    kept = KeptContents(tmp_path / "kept", TransferMode.COPY)
    one, two = content(1, "a"), content(2, "b")
    kept.keep(one, str(source), own=False)
    kept.keep(two, str(source), own=True)
    inode = (source / "saved_model.pb").stat().st_ino
    assert (Path(kept.path("a/b", 1, one.sha256)) / "saved_model.pb").stat().st_ino != inode
    assert (Path(kept.path("a/b", 2, two.sha256)) / "saved_model.pb").stat().st_ino == inode


def test_a_content_that_serves_again_counts_as_newer(kept: KeptContents, source: Path) -> None:
    one, two = content(1, "a", 1), content(2, "b", 2)
    for item in (one, two):
        kept.keep(item, str(source), own=True)
    assert not kept.keep(replace(one, served_at=3), str(source), own=True)
    assert [item.version for item in kept.contents("a/b")] == [1, 2]


def test_what_is_needed_and_the_last_others_stay(kept: KeptContents, source: Path) -> None:
    for version, digit in enumerate("abcde", start=1):
        kept.keep(content(version, digit, version), str(source), own=True)
    kept.keep(content(1, "f", model="other"), str(source), own=True)
    removed = kept.prune("a/b", 2, lambda item: item.version == 2)
    assert [item.version for item in removed] == [3, 1]
    assert [item.version for item in kept.contents("a/b")] == [5, 4, 2]
    assert len(kept.contents("other")) == 1
    assert kept.prune("a/b", 2, lambda item: item.version == 2) == []


def test_what_a_process_left_half_done_is_no_content_and_goes(kept: KeptContents, source: Path) -> None:
    one = content(1, "a")
    kept.keep(one, str(source), own=True)
    place = Path(kept.path("a/b", 1, one.sha256)).parent
    (place / "kept.json").unlink()
    (place.parent / ".new.xyz" / "content").mkdir(parents=True)
    assert kept.find("a/b", 1, one.sha256) is None
    assert kept.keep(one, str(source), own=True)
    kept.prune("a/b", 1, lambda item: False)
    assert [entry.name for entry in place.parent.iterdir()] == [place.name]


def test_another_content_under_the_same_digits_is_not_taken_for_it(kept: KeptContents, source: Path) -> None:
    kept.keep(content(1, "a"), str(source), own=True)
    assert kept.find("a/b", 1, "a" * 63 + "b") is None


def test_a_source_that_is_gone_leaves_nothing_behind(kept: KeptContents, tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="/nowhere could not be kept: No such file"):
        kept.keep(content(1, "a"), "/nowhere", own=False)
    assert kept.contents("a/b") == []
    assert [entry for entry in (tmp_path / "kept").rglob("*") if entry.is_file()] == []
