from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from model_repo_sync import checkpoint_index, saved_model_files
from model_repo_sync.sources import BasePathError, Scanner, VersionDirectory, parse_version, scan_base_path
from tests.model_repo_sync.builders import GraphBuilder, identity, saved_model, write


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("1", 1), ("0", 0), ("-5", -5), ("+7", 7), ("-0", 0), ("00000123", 123), (" 8 ", 8), ("\t9\n", 9),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None), ("18446744073709551616", None), ("12abc", None), ("v1", None), ("1.0", None),
        ("1_000", None), ("1_tmp", None), ("", None), ("-", None), ("- 5", None), ("--5", None), ("assets", None),
        ("١", None), ("\u00a01", None),
    ],
)  # fmt: skip
def test_version_names(name: str, version: int | None) -> None:
    assert parse_version(name) == version


def test_versions_ascend_and_junk_is_silent(tmp_path: Path) -> None:
    for name in ("-5", "0", "00000123", "9223372036854775807", "12abc", "18446744073709551616", "assets", ".tmp9"):
        write(tmp_path / name)
    scan = scan_base_path(str(tmp_path))
    assert scan.versions == (
        VersionDirectory(-5, f"{tmp_path}/-5"),
        VersionDirectory(0, f"{tmp_path}/0"),
        VersionDirectory(123, f"{tmp_path}/00000123"),
        VersionDirectory(2**63 - 1, f"{tmp_path}/9223372036854775807"),
    )
    assert scan.problems == ()


def test_of_two_names_of_one_number_the_later_wins(tmp_path: Path) -> None:
    for name in ("02", "2", "+2"):
        write(tmp_path / name)
    scan = scan_base_path(str(tmp_path))
    assert scan.versions == (VersionDirectory(2, f"{tmp_path}/2"),)
    assert [problem.sentence for problem in scan.problems] == [
        f"{tmp_path}/+2 is not offered: {tmp_path}/02 is version 2 too.",
        f"{tmp_path}/02 is not offered: {tmp_path}/2 is version 2 too.",
    ]


def test_links_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "content" / "model")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "3").symlink_to(tmp_path / "content" / "model")
    (tmp_path / "base").symlink_to(tmp_path / "real")
    assert scan_base_path(str(tmp_path / "base")).versions == (VersionDirectory(3, f"{tmp_path}/base/3"),)


@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file or directory"), ("file", "Not a directory")])
def test_a_base_path_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / name)
    with pytest.raises(BasePathError, match=f"base path {path} cannot be read: {reason}") as caught:
        scan_base_path(path)
    assert (caught.value.path, caught.value.reason) == (path, reason)


def test_an_empty_base_path_offers_nothing(tmp_path: Path) -> None:
    assert scan_base_path(str(tmp_path)).versions == ()


def truncate(path: Path, size: int) -> None:
    os.truncate(path, size)


def shard(directory: Path, number: int) -> Path:
    return directory / "variables" / f"variables.data-{number:05d}-of-00002"


def drop_variables(directory: Path) -> None:
    for file in (directory / "variables").iterdir():
        file.unlink()
    (directory / "variables").rmdir()


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no saved_model.pb": (lambda d: (d / "saved_model.pb").unlink(), "it has no saved_model.pb."),
    "empty": (lambda d: truncate(d / "saved_model.pb", 0), "it has a saved_model.pb without a graph."),
    "truncated": (lambda d: truncate(d / "saved_model.pb", 60), "it has a truncated or damaged saved_model.pb."),
    "no variables": (drop_variables, "it lacks variables/variables.index."),
    "no index": (lambda d: (d / "variables/variables.index").unlink(), "it lacks variables/variables.index."),
    "half an index": (
        lambda d: truncate(d / "variables/variables.index", 50),
        "it has a variables/variables.index that is truncated or not a checkpoint index.",
    ),
    "half a shard": (
        lambda d: truncate(shard(d, 1), 10),
        "it has 10 of the 40 bytes of variables/variables.data-00001-of-00002.",
    ),
    "no shard": (
        lambda d: shard(d, 0).unlink(),
        "it has 0 of the 30 bytes of variables/variables.data-00000-of-00002.",
    ),
    "no asset": (lambda d: (d / "assets/vocabulary.txt").unlink(), "it lacks assets/vocabulary.txt."),
}


def whole_model(directory: Path) -> Path:
    graph = identity().variables()
    graph.message.asset_file_def.add(filename="vocabulary.txt")
    write(directory, graph, shards=[30, 40])
    (directory / "assets").mkdir()
    (directory / "assets" / "vocabulary.txt").write_text("a\n")
    return directory


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_half_copied_version_is_a_problem(tmp_path: Path, damage: str) -> None:
    write(tmp_path / "1")
    directory = whole_model(tmp_path / "2")
    assert len(scan_base_path(str(tmp_path)).versions) == 2
    harm, sentence = DAMAGE[damage]
    harm(directory)
    scan = scan_base_path(str(tmp_path))
    assert [version for version, _ in scan.versions] == [1]
    assert [tuple(problem) for problem in scan.problems] == [
        (str(directory), f"{directory} is not offered: {sentence}")
    ]


def test_a_version_appears_once_its_copy_is_complete(tmp_path: Path) -> None:
    scanner = Scanner()
    directory = tmp_path / "1"
    directory.mkdir()
    content = saved_model()
    for end in (0, 10, len(content) - 1):
        (directory / "saved_model.pb").write_bytes(content[:end])
        assert scanner.scan(str(tmp_path)).versions == ()
    (directory / "saved_model.pb").write_bytes(content)
    assert scanner.scan(str(tmp_path)).versions == (VersionDirectory(1, str(directory)),)


def test_a_file_is_no_version(tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    (tmp_path / "2").symlink_to(tmp_path / "nothing")
    sentences = [problem.sentence for problem in scan_base_path(str(tmp_path)).problems]
    assert sentences == [f"{tmp_path}/{name} is not offered: it is not a directory." for name in ("1", "2")]


def test_a_text_saved_model_is_offered(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    text = 'meta_graphs { meta_info_def { tags: "serve" } object_graph_def { nodes { user_object { } } } }'
    (tmp_path / "1" / "saved_model.pbtxt").write_text(text)
    assert [version for version, _ in scan_base_path(str(tmp_path)).versions] == [1]
    (tmp_path / "1" / "saved_model.pbtxt").write_text(text[:-5])
    [problem] = scan_base_path(str(tmp_path)).problems
    assert problem.sentence.endswith("it has a truncated or damaged saved_model.pbtxt.")


def test_a_legacy_session_bundle_is_offered_since_reading_it_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "export.meta").touch()
    assert [version for version, _ in scan_base_path(str(tmp_path)).versions] == [1]


def test_constants_need_no_variables(tmp_path: Path) -> None:
    graph = identity()
    graph.message.saver_def.restore_op_name = "save/restore_all"
    write(tmp_path / "1", graph)
    write(tmp_path / "2", GraphBuilder().node("w", "VarHandleOp"))
    assert [version for version, _ in scan_base_path(str(tmp_path)).versions] == [1, 2]


def test_unchanged_files_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_model(tmp_path / "1")
    damaged = whole_model(tmp_path / "2")
    truncate(damaged / "saved_model.pb", 60)
    scanner = Scanner()
    first = scanner.scan(str(tmp_path))

    def forbidden(path: str) -> None:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(saved_model_files, "parse", forbidden)
    monkeypatch.setattr(checkpoint_index, "read_shards", forbidden)
    assert [scanner.scan(str(tmp_path)) for _ in range(3)] == [first] * 3
    with pytest.raises(AssertionError, match="was read again"):
        scan_base_path(str(tmp_path))


def test_what_a_policy_cannot_pick_is_not_read(tmp_path: Path) -> None:
    for name in ("1", "2", "3"):
        write(tmp_path / name)
    truncate(tmp_path / "1" / "saved_model.pb", 5)
    truncate(tmp_path / "3" / "saved_model.pb", 5)
    newest = Scanner().scan(str(tmp_path), newest=1)
    assert [version for version, _ in newest.versions] == [2]
    assert [problem.path for problem in newest.problems] == [f"{tmp_path}/3"]
    only = Scanner().scan(str(tmp_path), only=(2, 9))
    assert ([version for version, _ in only.versions], only.problems) == ([2], ())


def test_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "1" / "saved_model.pb").mkdir(parents=True)
    [problem] = scan_base_path(str(tmp_path)).problems
    assert problem.sentence.endswith("it has an unreadable saved_model.pb (Is a directory).")
