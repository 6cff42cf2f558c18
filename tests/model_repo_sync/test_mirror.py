from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from model_repo_sync import mirror, names, triton_config
from model_repo_sync.mirror import MARK, Mirror, MirroredModel
from model_repo_sync.prepared_model import PreparedModel
from model_repo_sync.repository import ModelRepository
from model_repo_sync.triton_config import RunnerOptions

DEPLOYMENT = "0123abcd"
NAME, OTHER = "mm.0123abcd.m.1", "mm.0123abcd.n.1"


@pytest.fixture
def origin(tmp_path: Path) -> ModelRepository:
    return ModelRepository(tmp_path / "origin", DEPLOYMENT)


@pytest.fixture
def copy(tmp_path: Path) -> Mirror:
    (tmp_path / "copy" / "stranger").mkdir(parents=True)
    return Mirror(ModelRepository(tmp_path / "copy", DEPLOYMENT))


def write(origin: ModelRepository, name: str, **files: str) -> None:
    source = origin.path.parent / "source"
    source.mkdir(exist_ok=True)
    for file, text in files.items():
        (source / file).write_text(text)
    origin.write_prepared(name, "m", PreparedModel("c", {f"1/{file}": str(source / file) for file in files}))


def follow(origin: ModelRepository, copy: Mirror) -> list[str]:
    def download(name: str, digest: str, path: str) -> Iterable[bytes]:
        if mirror.look(origin.path / name).digest != digest:
            raise OSError("another one by now")
        yield (origin.path / name / path).read_bytes()

    return copy.follow(mirror.look_at_all(origin), download)


def tree(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != MARK]
    return {os.path.relpath(path, directory): path.read_bytes() for path in files}


def test_a_copy_follows(tmp_path: Path, origin: ModelRepository, copy: Mirror) -> None:
    write(origin, NAME, a="1")
    write(origin, OTHER, a="1")
    assert follow(origin, copy) == [NAME, OTHER]
    assert tree(tmp_path / "copy") == tree(tmp_path / "origin")
    assert follow(origin, copy) == []
    assert copy.held() == {name: model.digest for name, model in mirror.look_at_all(origin).items()}
    (tmp_path / "source" / "a").unlink()
    write(origin, NAME, a="2")
    origin.remove(OTHER)
    assert sorted(follow(origin, copy)) == [NAME, OTHER]
    assert tree(tmp_path / "copy") == tree(tmp_path / "origin")
    assert sorted(os.listdir(tmp_path / "copy")) == [NAME, "stranger"]


def test_content_that_is_written_again_is_another_one(origin: ModelRepository) -> None:
    write(origin, NAME, a="1")
    first = mirror.look(origin.path / NAME)
    origin.remove(NAME)
    write(origin, NAME, a="1")
    assert mirror.look(origin.path / NAME).digest != first.digest


def test_a_probe_has_an_empty_version(tmp_path: Path, origin: ModelRepository, copy: Mirror) -> None:
    name = names.probe_name(DEPLOYMENT, "n")
    origin.write(name, None, triton_config.probe(name, RunnerOptions()))
    follow(origin, copy)
    assert (tmp_path / "copy" / name / "1").is_dir()


def test_half_a_download_is_never_seen(tmp_path: Path, origin: ModelRepository, copy: Mirror) -> None:
    write(origin, NAME, a="1", b="22")

    def cut(name: str, digest: str, path: str) -> Iterable[bytes]:
        return [b"1"]

    with pytest.raises(OSError, match="with 1 bytes instead of 2"):
        copy.follow({NAME: MirroredModel("d", {"1/a": 1, "1/b": 2})}, cut)
    assert os.listdir(tmp_path / "copy") == ["stranger"]
    assert copy.held() == {}


@pytest.mark.parametrize("path", ["../a", "/a", "1/../../a", "1//a", "", ".", "a\0"])
def test_no_file_leaves_its_model(tmp_path: Path, copy: Mirror, path: str) -> None:
    with pytest.raises(ValueError, match="cannot be a file of a model"):
        copy.follow({NAME: MirroredModel("d", {path: 0})}, lambda name, digest, path: [])
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["..", "stranger", "mm.ffffffff.m.1", "a/b"])
def test_no_other_directory_is_touched(tmp_path: Path, copy: Mirror, name: str) -> None:
    with pytest.raises(ValueError, match="no model name of deployment"):
        copy.follow({name: MirroredModel("d", {})}, lambda name, digest, path: [])
    assert os.listdir(tmp_path / "copy") == ["stranger"]
