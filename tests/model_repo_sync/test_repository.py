from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp

import pytest

from model_repo_sync import names, transfer, triton_config
from model_repo_sync.repository import ModelRepository, WriteResult
from model_repo_sync.saved_model import read_saved_model
from model_repo_sync.transfer import TransferError
from model_repo_sync.triton_config import ConfigError, RunnerOptions
from tests.model_repo_sync.builders import identity, write

DEPLOYMENT, OTHER = "0123abcd", "ffffffff"
NAME = names.servable_name(DEPLOYMENT, "a/b", 1)


def config(name: str, source: Path, threads: int = 4) -> str:
    return triton_config.generate(name, read_saved_model(str(source)), RunnerOptions(threads=threads))


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def stamps(directory: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in directory.rglob("*")}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = write(tmp_path / "source", identity().variables(), shards=[100, 20])
    (directory / "assets").mkdir()
    (directory / "assets" / "vocabulary.txt").symlink_to(tmp_path / "vocabulary.txt")
    (tmp_path / "vocabulary.txt").write_text("a\nb\n")
    return directory


@pytest.fixture
def other_file_system(tmp_path: Path) -> Iterator[Path]:
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("there is no second file system")
    directory = Path(mkdtemp(dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


@pytest.mark.parametrize("mode", ["auto", "copy", "link"])
def test_content_comes_whole_and_outlives_its_source(tmp_path: Path, source: Path, mode: str) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT, mode)
    text, content = config(NAME, source), tree(source)
    size = sum(map(len, content.values()))
    assert repository.write(NAME, source, text) == WriteResult(True, size, "copy" if mode == "copy" else "link")
    shutil.rmtree(source)
    model = tmp_path / "repository" / NAME
    assert tree(model / "1" / "model.savedmodel") == content
    assert (model / "config.pbtxt").read_text() == text
    assert not any(path.is_symlink() for path in model.rglob("*"))
    assert os.listdir(tmp_path / "repository") == [NAME]


def test_links_share_the_files(tmp_path: Path, source: Path) -> None:
    ModelRepository(tmp_path / "repository", DEPLOYMENT, "link").write(NAME, source, config(NAME, source))
    linked = tmp_path / "repository" / NAME / "1" / "model.savedmodel"
    assert linked.joinpath("saved_model.pb").samefile(source / "saved_model.pb")
    assert linked.joinpath("assets", "vocabulary.txt").samefile(tmp_path / "vocabulary.txt")


def test_writing_again_touches_nothing(tmp_path: Path, source: Path) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT, "copy")
    repository.write(NAME, source, config(NAME, source))
    before = stamps(tmp_path / "repository")
    assert repository.write(NAME, source, config(NAME, source)) == WriteResult(False)
    assert stamps(tmp_path / "repository") == before


def test_changed_content_and_changed_configuration_replace(tmp_path: Path, source: Path) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    repository.write(NAME, source, config(NAME, source))
    assert repository.write(NAME, source, config(NAME, source, threads=9)).changed
    (source / "assets" / "vocabulary.txt").unlink()
    (source / "assets" / "new.txt").write_text("c\n")
    assert repository.write(NAME, source, config(NAME, source, threads=9)).changed
    assert tree(tmp_path / "repository" / NAME / "1" / "model.savedmodel") == tree(source)


def test_a_probe_has_no_saved_model(tmp_path: Path) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    name = names.probe_name(DEPLOYMENT, "n1")
    text = triton_config.probe(name, RunnerOptions())
    assert repository.write(name, None, text) == WriteResult(True)
    assert repository.write(name, None, text) == WriteResult(False)
    assert (tmp_path / "repository" / name / "1").is_dir()


@pytest.mark.parametrize("mode", ["auto", "copy"])
def test_another_file_system_is_copied_to(source: Path, other_file_system: Path, mode: str) -> None:
    repository = ModelRepository(other_file_system, DEPLOYMENT, mode)
    assert repository.write(NAME, source, config(NAME, source)).transfer == "copy"
    assert tree(other_file_system / NAME / "1" / "model.savedmodel") == tree(source)


def test_a_link_across_file_systems_is_refused(source: Path, other_file_system: Path) -> None:
    repository = ModelRepository(other_file_system, DEPLOYMENT, "link")
    with pytest.raises(
        TransferError, match=r"they are on different file systems; use --model_transfer=copy or auto\.$"
    ):
        repository.write(NAME, source, config(NAME, source))
    assert os.listdir(other_file_system) == []


@pytest.mark.parametrize(("mode", "refused"), [("auto", False), ("link", True)])
def test_a_file_system_without_hard_links(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, mode: str, refused: bool
) -> None:
    def link(origin: str, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", origin)

    monkeypatch.setattr(os, "link", link)
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT, mode)
    if refused:
        with pytest.raises(
            TransferError, match=r"cannot be linked into .*: Operation not permitted; use --model_transfer"
        ):
            repository.write(NAME, source, config(NAME, source))
    else:
        assert repository.write(NAME, source, config(NAME, source)).transfer == "copy"


def test_too_little_space_is_told_before_anything_is_written(tmp_path: Path, source: Path) -> None:
    size = sum(map(len, tree(source).values()))
    asked: list[str] = []

    def free(path: str) -> int:
        asked.append(path)
        return size - 1

    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT, "copy", free=free)
    with pytest.raises(
        TransferError, match=f"{source} needs {size} bytes on the file system of .* has {size - 1} free"
    ):
        repository.write(NAME, source, config(NAME, source))
    assert os.listdir(tmp_path / "repository") == []
    assert len(asked) == 1
    assert (
        ModelRepository(tmp_path / "repository", DEPLOYMENT, "link", free=free)
        .write(NAME, source, config(NAME, source))
        .changed
    )


def test_a_source_that_changes_while_it_is_read_is_not_taken(tmp_path: Path, source: Path) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    repository.write(NAME, source, config(NAME, source))
    kept = tree(tmp_path / "repository")
    outdated = config(NAME, source, threads=9)
    (source / "variables" / "variables.data-00000-of-00002").write_bytes(b"2" * 200)
    with pytest.raises(TransferError, match=f"{source} changed while it was read, so nothing was written"):
        repository.write(NAME, source, outdated)
    assert set(tree(tmp_path / "repository")) == set(kept)
    assert (tmp_path / "repository" / NAME / "config.pbtxt").read_bytes() == kept[f"{NAME}/config.pbtxt"]


def test_a_source_that_vanishes_is_told(tmp_path: Path, source: Path) -> None:
    text = config(NAME, source)
    shutil.rmtree(source)
    with pytest.raises(TransferError, match=f"{NAME} could not be written: {source}: No such file or directory"):
        ModelRepository(tmp_path / "repository", DEPLOYMENT).write(NAME, source, text)
    assert os.listdir(tmp_path / "repository") == []


def test_a_configuration_for_another_name_is_refused(tmp_path: Path, source: Path) -> None:
    with pytest.raises(ConfigError, match="is named"):
        ModelRepository(tmp_path, DEPLOYMENT).write(NAME, source, config("other", source))


FOREIGN = ["", ".", "..", "../x", "/etc", "resnet", "tfs.0123abcd./.1", "tfs.0123abcd.a/b.1", f"tfs.{OTHER}.m.1",
           "tfs.0123abcd.m.1/../../x", ".staging.0123abcd"]  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_names_of_others_are_never_touched(tmp_path: Path, source: Path, name: str) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    with pytest.raises(ValueError, match="no model name of deployment"):
        repository.write(name, source, "")
    with pytest.raises(ValueError, match="no model name of deployment"):
        repository.remove(name)


def test_cleaning_up_removes_only_the_own_models(tmp_path: Path, source: Path) -> None:
    path = tmp_path / "repository"
    own, foreign = ModelRepository(path, DEPLOYMENT), ModelRepository(path, OTHER)
    mine = [names.servable_name(DEPLOYMENT, "m", version) for version in (1, 2, 3)]
    theirs = names.servable_name(OTHER, "m", 1)
    for name in mine:
        own.write(name, source, config(name, source))
    foreign.write(theirs, source, config(theirs, source))
    (path / "resnet" / "1").mkdir(parents=True)
    assert own.names() == mine
    assert own.purge([mine[1]]) == [mine[0], mine[2]]
    assert own.remove(mine[1])
    assert not own.remove(mine[1])
    assert own.purge([]) == []
    assert sorted(os.listdir(path)) == ["resnet", theirs]


CRASH = """
import os, sys
from pathlib import Path
from model_repo_sync import repository, transfer
point, path, name, source, config = sys.argv[1:]
die = lambda *arguments, **options: os._exit(9)
if point == "in the transfer":
    transfer._sync_tree = die
elif point == "before the configuration":
    repository.write_file = die
elif point == "before the rename":
    repository.ModelRepository._replace = die
elif point == "between the renames":
    rename = Path.rename
    Path.rename = lambda self, target: die() if self.name == "new" else rename(self, target)
repository.ModelRepository(path, "0123abcd").write(name, source, Path(config).read_text())
"""


@pytest.mark.parametrize("replacing", [False, True])
@pytest.mark.parametrize(
    "point", ["in the transfer", "before the configuration", "before the rename", "between the renames"]
)
def test_a_crash_leaves_no_half_written_model(tmp_path: Path, source: Path, point: str, replacing: bool) -> None:
    path = tmp_path / "repository"
    if replacing:
        ModelRepository(path, DEPLOYMENT).write(NAME, source, config(NAME, source))
    old = tree(path / NAME) if replacing else {}
    text = tmp_path / "config"
    text.write_text(config(NAME, source, threads=9))
    arguments = [point, str(path), NAME, str(source), str(text)]
    root = Path(__file__).resolve().parents[2]
    crashed = subprocess.run([sys.executable, "-c", CRASH, *arguments], cwd=root, check=False, timeout=60)
    assert crashed.returncode == 9
    gone = point == "between the renames" or not replacing
    assert (tree(path / NAME) if (path / NAME).exists() else {}) == ({} if gone else old)
    repository = ModelRepository(path, DEPLOYMENT)
    assert os.listdir(path) == ([] if gone else [NAME])
    assert repository.write(NAME, source, text.read_text()).changed
    assert tree(path / NAME / "1" / "model.savedmodel") == tree(source)


def test_the_staging_of_a_live_writer_is_left_alone(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "repository"
    writer = ModelRepository(path, DEPLOYMENT)
    run = transfer.Transfer.run
    seen: list[list[Path]] = []

    def interrupted(self: transfer.Transfer, origin: str, destination: Path) -> transfer.TransferReport:
        ModelRepository(path, DEPLOYMENT)
        seen.append(list((path / f".staging.{DEPLOYMENT}").iterdir()))
        return run(self, origin, destination)

    monkeypatch.setattr(transfer.Transfer, "run", interrupted)
    assert writer.write(NAME, source, config(NAME, source)).changed
    assert [len(entries) for entries in seen] == [1]


def test_threads_may_write_different_models_at_once(tmp_path: Path, source: Path) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    wanted = [names.servable_name(DEPLOYMENT, "m", version) for version in range(40)]

    def write_and_remove(name: str) -> None:
        repository.write(name, source, config(name, source))
        repository.remove(name)
        repository.write(name, source, config(name, source))

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(write_and_remove, wanted))
    assert sorted(os.listdir(tmp_path / "repository")) == sorted(wanted)


def test_threads_may_write_one_model_at_once(tmp_path: Path, source: Path) -> None:
    """As instances that share a repository do."""
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: repository.write(NAME, source, config(NAME, source)), range(40)))
    assert sum(result.changed for result in results) == 1


def test_the_staging_directory_may_come_and_go_under_many_threads(tmp_path: Path) -> None:
    repository = ModelRepository(tmp_path / "repository", DEPLOYMENT)
    absent = [names.servable_name(DEPLOYMENT, "m", version) for version in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(repository.remove, absent))


def test_a_failed_replacement_keeps_what_was_there(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "repository"
    repository = ModelRepository(path, DEPLOYMENT)
    repository.write(NAME, source, config(NAME, source))
    kept = tree(path)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(errno.EIO, "Input/output error", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(TransferError, match="Input/output error"):
        repository.write(NAME, source, config(NAME, source, threads=9))
    assert tree(path) == kept
