"""Digests of directories, against sha256sum and against a real export."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from model_repo_sync.content import ContentReader, Stopped, is_unchanged, tensorflow_fingerprint
from model_repo_sync.protos.tensorflow import fingerprint_pb2

SHELL = "find -L . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "1"
    (root / "variables").mkdir(parents=True)
    (root / "saved_model.pb").write_bytes(b"graph")
    (root / "variables" / "variables.index").write_bytes(b"index")
    (root / "variables.txt").write_bytes(b"beside")
    return root


def test_the_fingerprint_is_that_of_sha256sum(directory: Path) -> None:
    shell = subprocess.run(SHELL, shell=True, cwd=directory, capture_output=True, text=True, check=True)
    content = ContentReader().read(str(directory))
    assert content.sha256 == shell.stdout.split()[0]
    assert content.bytes == len(b"graphindexbeside")
    assert [file.name for file in content.files] == ["saved_model.pb", "variables.txt", "variables/variables.index"]


def test_names_count_as_well_as_bytes(directory: Path) -> None:
    before = ContentReader().read(str(directory)).sha256
    (directory / "variables.txt").rename(directory / "other.txt")
    assert ContentReader().read(str(directory)).sha256 != before


def test_a_file_that_did_not_change_is_not_read_twice(directory: Path) -> None:
    reader = ContentReader()
    before = reader.read(str(directory))
    graph = directory / "saved_model.pb"
    status = graph.stat()
    with graph.open("r+b") as file:
        file.write(b"hparg")
    os.utime(graph, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert reader.read(str(directory)).sha256 == before.sha256
    os.utime(graph)
    assert reader.read(str(directory)).sha256 != before.sha256


def test_what_an_earlier_process_saw_is_not_read_again(directory: Path) -> None:
    files = ContentReader().read(str(directory)).files
    claimed = [file._replace(sha256="0" * 64) for file in files]
    reader = ContentReader()
    reader.remember(str(directory), claimed)
    assert {file.sha256 for file in reader.read(str(directory)).files} == {"0" * 64}


@pytest.mark.parametrize("change", ["rewrite", "replace", "remove"])
def test_changes_are_seen_by_the_status_of_known_files(directory: Path, change: str) -> None:
    files = ContentReader().read(str(directory)).files
    assert is_unchanged(str(directory), files)
    graph = directory / "saved_model.pb"
    if change == "remove":
        graph.unlink()
    elif change == "rewrite":
        graph.write_bytes(b"other graph")
    else:
        status = graph.stat()
        (directory / "new").write_bytes(b"hparg")
        os.utime(directory / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
        (directory / "new").rename(graph)
    assert not is_unchanged(str(directory), files)


def test_a_reading_that_nobody_waits_for_is_broken_off(directory: Path) -> None:
    reader = ContentReader()
    reader.stop()
    with pytest.raises(Stopped):
        reader.read(str(directory))


def test_tensorflows_own_fingerprint(directory: Path) -> None:
    assert tensorflow_fingerprint(str(directory)) == {}
    message = fingerprint_pb2.FingerprintDef(saved_model_checksum=2**63 + 1, uuid="u-1")
    (directory / "fingerprint.pb").write_bytes(message.SerializeToString())
    assert tensorflow_fingerprint(str(directory)) == {"saved_model_checksum": str(2**63 + 1), "uuid": "u-1"}
    (directory / "fingerprint.pb").write_bytes(b"\xff\xff")
    assert tensorflow_fingerprint(str(directory)) == {}
