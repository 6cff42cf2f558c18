"""Copies of what lies in object stores: whole, resumed, and read once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from model_repo_sync.object_store import open_file_system
from model_repo_sync.saved_model_files import fingerprint
from model_repo_sync.source_cache import DownloadError, SourceCache
from model_repo_sync.sources import Scanner
from tests.model_repo_sync.builders import identity, write
from tests.support.object_stores import Bucket

_numbers = itertools.count()


class Counting:
    """fsspec's memory filesystem that counts the bytes read, and breaks off after `limit` of them."""

    def __init__(self) -> None:
        self._fs = open_file_system("memory")
        self.read = 0
        self.limit = 1 << 40
        self.chunk = 1 << 40

    def open(self, kind: str) -> Any:
        return self

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        data: bytes = self._fs.cat_file(path, start=start, end=min(end, start + self.chunk))
        if self.read + len(data) > self.limit:
            raise ConnectionError("the line is dead")
        self.read += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"memory://cached{next(_numbers)}")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write(tmp_path / "source" / "1", identity().variables(), shards=(1000, 500))


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def cache(tmp_path: Path, counting: Counting) -> SourceCache:
    return SourceCache(tmp_path / "cache", open_file_system=counting.open)


def content(directory: str | Path) -> Mapping[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in Path(directory).rglob("*")
        if path.is_file()
    }


def left(cache: SourceCache) -> list[str]:
    """Names of the copies, whole or not."""
    return sorted(path.name for path in cache.root.glob("*/*") if path.is_dir())


def test_a_copy_is_whole_and_read_once(bucket: Bucket, directory: Path, cache: SourceCache, counting: Counting) -> None:
    bucket.upload(directory, "m/1")
    scanner = Scanner(cache)
    for _ in range(3):
        assert len(scanner.scan(f"{bucket.url}/m").versions) == 1
    looked = counting.read
    path = cache.fetch(f"{bucket.url}/m/1")
    assert content(path) == content(directory)
    size = sum(map(len, content(directory).values()))
    assert (looked < 1000, counting.read) == (True, size), "a look reads the graph and the index, a fetch the rest"
    assert cache.fetch(f"{bucket.url}/m/1") == path
    assert SourceCache(cache.root, open_file_system=counting.open).fetch(f"{bucket.url}/m/1") == path
    assert counting.read == size
    assert left(cache) == ["1"]


def test_only_what_changed_is_read_again(
    bucket: Bucket, directory: Path, cache: SourceCache, counting: Counting
) -> None:
    bucket.upload(directory, "m/1")
    path = cache.fetch(f"{bucket.url}/m/1")
    first, read = fingerprint(path), counting.read
    bucket.put("m/1/variables/variables.data-00001-of-00002", b"\1" * 500)
    bucket.delete("m/1/variables/variables.data-00000-of-00002")
    bucket.put("m/1/assets", b"a file")
    assert cache.fetch(f"{bucket.url}/m/1") == path
    assert counting.read - read == 506
    assert fingerprint(path) != first
    assert sorted(content(path)) == [
        "assets",
        "saved_model.pb",
        "variables/variables.data-00001-of-00002",
        "variables/variables.index",
    ]
    bucket.delete("m/1/assets")
    bucket.put("m/1/assets/words", b"a directory")
    assert content(cache.fetch(f"{bucket.url}/m/1"))["assets/words"] == b"a directory"


@pytest.mark.parametrize("limit", [0, 100, 400, 1000, 1400])
def test_an_interrupted_download_goes_on(
    bucket: Bucket, directory: Path, cache: SourceCache, counting: Counting, limit: int
) -> None:
    bucket.upload(directory, "m/1")
    counting.limit, counting.chunk = limit, 64
    with pytest.raises(OSError, match="the line is dead"):
        cache.fetch(f"{bucket.url}/m/1")
    counting.limit = 1 << 40
    assert content(cache.fetch(f"{bucket.url}/m/1")) == content(directory)
    assert counting.read == sum(map(len, content(directory).values()))


def test_a_part_of_other_content_is_not_used(
    bucket: Bucket, directory: Path, cache: SourceCache, counting: Counting
) -> None:
    bucket.upload(directory, "m/1")
    counting.limit, counting.chunk = 1200, 64
    with pytest.raises(OSError, match="the line is dead"):
        cache.fetch(f"{bucket.url}/m/1")
    counting.limit = 1 << 40
    bucket.put("m/1/variables/variables.data-00000-of-00002", b"\2" * 1000)
    copied = content(cache.fetch(f"{bucket.url}/m/1"))
    assert copied["variables/variables.data-00000-of-00002"] == b"\2" * 1000


def test_an_object_that_changes_while_it_is_read(
    bucket: Bucket, directory: Path, cache: SourceCache, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.upload(directory, "m/1")
    read = counting.cat_file

    def change(path: str, start: int, end: int) -> bytes:
        data = read(path, start, end)
        if path.endswith("data-00000-of-00002"):
            bucket.put("m/1/variables/variables.data-00000-of-00002", b"\3" * 1000)
        return data

    monkeypatch.setattr(counting, "cat_file", change)
    with pytest.raises(DownloadError, match=r"data-00000-of-00002 changed while it was read"):
        cache.fetch(f"{bucket.url}/m/1")


def test_no_room(bucket: Bucket, directory: Path, tmp_path: Path) -> None:
    bucket.upload(directory, "m/1")
    cache = SourceCache(tmp_path / "cache", free=lambda path: 1000)
    size = sum(map(len, content(directory).values()))
    with pytest.raises(DownloadError, match=f"needs {size} bytes on the file system of .*, which has 1000 free"):
        cache.fetch(f"{bucket.url}/m/1")


def test_a_version_that_is_gone(bucket: Bucket, cache: SourceCache) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        cache.fetch(f"{bucket.url}/m/1")
    assert caught.value.filename == f"{bucket.url}/m/1"


def test_holders_keep_a_copy(bucket: Bucket, directory: Path, cache: SourceCache) -> None:
    bucket.upload(directory, "m/1")
    path = cache.fetch(f"{bucket.url}/m/1")
    assert path == cache.path_of(f"{bucket.url}/m/1")
    cache.hold(path)
    cache.hold(path)
    cache.discard(path)
    cache.release(path)
    assert left(cache) == ["1"]
    cache.forget_others(f"{bucket.url}/m", [])
    cache.forget_other_bases([])
    assert left(cache) == ["1"]
    cache.release(path)
    assert left(cache) == []


def test_what_is_no_copy_is_left_alone(tmp_path: Path, cache: SourceCache, directory: Path) -> None:
    for path in (directory, tmp_path, cache.root):
        cache.discard(os.fspath(path))
    assert (directory / "saved_model.pb").exists()


def test_copies_go_with_their_version_and_their_base_path(bucket: Bucket, directory: Path, cache: SourceCache) -> None:
    for version in ("m/1", "m/2", "other/1"):
        bucket.upload(directory, version)
        cache.fetch(f"{bucket.url}/{version}")
    assert left(cache) == ["1", "1", "2"]
    bucket.delete("m/1")
    Scanner(cache).scan(f"{bucket.url}/m")
    assert left(cache) == ["1", "2"]
    cache.forget_other_bases([f"{bucket.url}/m"])
    assert left(cache) == ["2"]
