"""URLs, file systems, text."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import canonical
from bridge.registry.database import Database, parse_url, sqlite_path, sqlite_url
from bridge.registry.filesystem import filesystem_type, is_network, refuse_network

MOUNTS = """\
overlay / overlay rw 0 0
/dev/vda /data ext4 rw 0 0
server:/x /data/shared nfs4 rw 0 0
sshfs /mnt/with\\040space fuse.sshfs rw 0 0
tmpfs /data/shared/local tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:////var/lib/bridge.db", "sqlite"),
        ("postgresql://u:p@host/db", "postgresql+psycopg"),
        ("postgres://u:p@host/db", "postgresql+psycopg"),
        ("postgresql+psycopg://host/db", "postgresql+psycopg"),
    ],
)
def test_urls(url: str, driver: str) -> None:
    assert parse_url(url).drivername == driver


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("bridge.db", "cannot be read; write sqlite:////PATH"),
        ("mysql://u:secret@host/db", r"'mysql://u:\*\*\*@host/db' is neither"),
        ("sqlite://", "is neither a SQLite file nor PostgreSQL"),
        ("sqlite:///:memory:", "is neither a SQLite file nor PostgreSQL"),
    ],
)
def test_refused_urls(url: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        parse_url(url)


def test_the_name_of_a_database_hides_its_password() -> None:
    with closing(Database.connect("postgresql://u:secret@host/db")) as database:
        assert database.name == "postgresql+psycopg://u:***@host/db"


@pytest.mark.parametrize("name", ["plain.db", "with space?.db", "100%.db", "ünï#.db"])
def test_a_path_survives_its_url(tmp_path: Path, name: str) -> None:
    assert sqlite_path(sqlite_url(tmp_path / name)) == tmp_path / name


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="/none' of the database does not exist"):
        Database.connect(sqlite_url(tmp_path / "none" / "bridge.db"))


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/etc", "overlay", False),
        ("/data/x", "ext4", False),
        ("/database", "overlay", False),
        ("/data/shared/deep/er", "nfs4", True),
        ("/data/shared/local", "tmpfs", False),
        ("/mnt/with space/x", "fuse.sshfs", True),
    ],
)
def test_file_systems(path: str, kind: str, network: bool) -> None:
    assert filesystem_type(Path(path), MOUNTS) == kind
    assert is_network(kind) is network


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"{MOUNTS}server:/y {tmp_path} cifs rw 0 0\n")
    with pytest.raises(FailedPrecondition, match=r"is on a network file system \(cifs\)"):
        refuse_network(tmp_path / "state", mounts)
    refuse_network(tmp_path, tmp_path / "no mounts here")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("plain ünï🙂", "plain ünï🙂"), ("a\0b", r"a\x00b"), ("a\udc80b", r"a\udc80b")],
)
def test_clean(text: str, cleaned: str) -> None:
    assert canonical.clean(text) == cleaned


def test_cut_does_not_split_a_character() -> None:
    assert canonical.cut("é" * 600) == "é" * 512
    assert canonical.cut("a" + "é" * 600) == "a" + "é" * 511


def test_canonical_json() -> None:
    assert canonical.dumps({"b": [1, 2.5, None, True], "a": {"ü\0": ("x",)}}) == (
        '{"a":{"ü\\\\x00":["x"]},"b":[1,2.5,null,true]}'
    )
    with pytest.raises(ValueError):
        canonical.dumps({"a": float("nan")})
