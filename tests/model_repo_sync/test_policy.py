from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model_repo_sync import policy
from model_repo_sync.policy import All, Aspired, Latest, Policy, Specific
from model_repo_sync.protos.tensorflow_serving import file_system_storage_path_source_pb2 as storage_pb2
from model_repo_sync.protos.text import from_text
from model_repo_sync.sources import Scanner, VersionDirectory
from tests.model_repo_sync.builders import write

VERSIONS = [VersionDirectory(version, f"/base/{version}") for version in (3, 1, 10, 2)]
VersionPolicy = storage_pb2.FileSystemStoragePathSourceConfig.ServableVersionPolicy


@pytest.mark.parametrize(
    ("wanted", "picked"),
    [
        (Latest(), [10]),
        (Latest(2), [3, 10]),
        (Latest(9), [1, 2, 3, 10]),
        (All(), [1, 2, 3, 10]),
        (Specific((2, 1)), [1, 2]),
    ],
)
def test_what_a_policy_picks(wanted: Policy, picked: list[int]) -> None:
    versions, warnings = policy.aspired(VERSIONS, wanted, "m")
    assert [version for version, _ in versions] == picked
    assert warnings == ()
    assert policy.aspired([], All()) == Aspired((), ())


def test_a_specific_version_that_is_missing_is_told() -> None:
    versions, warnings = policy.aspired(VERSIONS, Specific((1, 7)), "m")
    assert [version for version, _ in versions] == [1]
    assert warnings == (
        "Version 7 of servable m, which was requested to be served as a 'specific' version in the servable's version "
        "policy, was not found in the file system",
    )


def test_a_specific_policy_without_versions_unloads_everything() -> None:
    assert policy.aspired(VERSIONS, Specific(), "m") == Aspired((), ("No specific versions requested for servable m.",))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Latest(1)),
        ("latest {}", Latest(1)),
        ("latest { num_versions: 0 }", Latest(1)),
        ("latest { num_versions: 3 }", Latest(3)),
        ("all {}", All()),
        ("specific { versions: 5 versions: -2 versions: 5 }", Specific((-2, 5))),
        ("specific {}", Specific(())),
    ],
)
def test_policies_from_configuration_and_back(text: str, wanted: Policy) -> None:
    assert policy.from_proto(from_text(text, VersionPolicy)) == wanted
    assert policy.from_json(wanted.to_json()) == wanted


@pytest.mark.parametrize(
    "value",
    [{}, {"latest": {}}, {"latest": {"num_versions": 0}}, {"latest": {"num_versions": "1"}}, {"some": {}},
     {"all": {}, "latest": {"num_versions": 1}}, {"specific": {"versions": ["1"]}}, {"specific": {"versions": [True]}},
     {"latest": {"num_versions": True}}],
)  # fmt: skip
def test_what_is_no_policy(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="polic"):
        policy.from_json(value)


@pytest.mark.parametrize(
    ("text", "wanted", "described"),
    [
        ("latest", Latest(), "latest"),
        ("latest:4", Latest(4), "latest 4"),
        ("all", All(), "all"),
        ("specific:3,-1", Specific((-1, 3)), "specific -1, 3"),
    ],
)
def test_policies_on_the_command_line(text: str, wanted: Policy, described: str) -> None:
    assert policy.parse(text) == wanted
    assert wanted.describe() == described


@pytest.mark.parametrize("text", ["", "newest", "latest:", "latest:0", "latest:x", "all:1", "specific", "specific:1,x"])
def test_texts_that_are_no_policy(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no version policy"):
        policy.parse(text)


def test_a_scan_reads_only_what_the_policy_can_pick(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write(tmp_path / str(version))
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"")
    assert policy.scan(Scanner(), str(tmp_path), Latest(2)).problems == ()
    assert policy.scan(Scanner(), str(tmp_path), Specific((3,))).problems == ()
    assert len(policy.scan(Scanner(), str(tmp_path), All()).problems) == 1
