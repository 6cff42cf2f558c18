"""Base paths in object stores: the same rules as on disk, through fsspec.

S3 and Google Cloud Storage are servers on loopback that stand in for the clouds (moto and gcp-storage-emulator); the
filesystem packages in front of them are the real ones.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model_repo_sync import object_store
from model_repo_sync.object_store import NameRefused, ObjectStore, StoreUnusable, local_path
from model_repo_sync.sources import BasePathError, Scanner, VersionDirectory, scan_base_path
from tests.model_repo_sync.builders import GraphBuilder, identity, saved_model, write
from tests.support.object_stores import Bucket, gcs_server, s3_server

_numbers = itertools.count()


@pytest.fixture(scope="module", params=["memory", "s3", "gs"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """A scheme whose store can be reached; the variables for that are set meanwhile."""
    before = dict(os.environ)
    with contextlib.ExitStack() as stack:
        servers = {"s3": s3_server, "gs": gcs_server}
        environment = stack.enter_context(servers[request.param]()) if request.param in servers else {}
        os.environ.update(environment)
        yield request.param
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def bucket(kind: str) -> Bucket:
    return Bucket(f"{kind}://bucket{next(_numbers)}")


def versions(base_path: str) -> list[int]:
    return [version for version, _ in scan_base_path(base_path).versions]


def sentences(base_path: str) -> list[str]:
    return [problem.sentence for problem in scan_base_path(base_path).problems]


def test_versions_by_the_rules_of_directories(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("1", "00000123", "12abc", "assets"):
        bucket.upload(write(tmp_path / name), f"models/m/{name}")
    bucket.put("models/m/7", b"an object, no directory")
    scan = scan_base_path(f"{bucket.url}/models/m/")
    assert scan.versions == (
        VersionDirectory(1, f"{bucket.url}/models/m/1"),
        VersionDirectory(123, f"{bucket.url}/models/m/00000123"),
    )
    assert [problem.sentence for problem in scan.problems] == [
        f"{bucket.url}/models/m/7 is not offered: it is not a directory."
    ]


def test_a_version_is_offered_when_it_is_whole(bucket: Bucket, tmp_path: Path) -> None:
    directory = write(tmp_path / "1", identity().variables(), shards=(100, 50))
    scanner = Scanner()
    name = "m/1/variables/variables.data-00001-of-00002"
    bucket.put("m/1/variables/variables.index", (directory / "variables" / "variables.index").read_bytes())
    assert sentences(f"{bucket.url}/m") == [f"{bucket.url}/m/1 is not offered: it has no saved_model.pb."]
    bucket.put("m/1/saved_model.pb", (directory / "saved_model.pb").read_bytes()[:-5])
    [problem] = scanner.scan(f"{bucket.url}/m").problems
    assert problem.sentence == f"{bucket.url}/m/1 is not offered: it has a truncated or damaged saved_model.pb."
    bucket.upload(directory, "m/1")
    bucket.put(name, b"short")
    [problem] = scanner.scan(f"{bucket.url}/m").problems
    assert problem.sentence == (
        f"{bucket.url}/m/1 is not offered: it has 5 of the 50 bytes of variables/variables.data-00001-of-00002."
    )
    bucket.put(name, b"\0" * 50)
    assert scanner.scan(f"{bucket.url}/m").versions == (VersionDirectory(1, f"{bucket.url}/m/1"),)


@pytest.mark.parametrize("where", ["{url}/none", "{kind}://no-such-bucket/m"])
def test_a_base_path_without_objects_does_not_exist(bucket: Bucket, kind: str, where: str) -> None:
    path = where.format(url=bucket.url, kind=kind)
    with pytest.raises(BasePathError) as caught:
        scan_base_path(path)
    assert (caught.value.path, caught.value.reason) == (path, "No such file or directory")


def test_a_version_that_goes_is_seen_to_go(bucket: Bucket, tmp_path: Path) -> None:
    directory = write(tmp_path / "m")
    for version in (1, 2):
        bucket.upload(directory, f"m/{version}")
    assert versions(f"{bucket.url}/m") == [1, 2]
    bucket.delete("m/2")
    assert versions(f"{bucket.url}/m") == [1]


def test_names_that_cannot_be_files_are_refused(bucket: Bucket, tmp_path: Path) -> None:
    bucket.upload(write(tmp_path / "1"), "m/1")
    bucket.put(f"m/1/{'x' * 256}", b"")
    [sentence] = sentences(f"{bucket.url}/m")
    assert sentence.startswith(f"{bucket.url}/m/1 is not offered: it holds an object named 'xxx")


class Objects:
    """Stands in for a filesystem package: keys that a real store may hold and `memory://` may not."""

    def __init__(self, *keys: str) -> None:
        self._found = {f"b/m/1/{key}": {"name": f"b/m/1/{key}", "type": "file", "size": 1} for key in keys}

    def _strip_protocol(self, url: str) -> str:
        return url.partition("://")[2]

    def invalidate_cache(self) -> None: ...

    def find(self, root: str, detail: bool) -> dict[str, Any]:
        return self._found


@pytest.mark.parametrize(
    "keys",
    [("../../etc/passwd",), ("a/../../b",), ("./a",), ("a//b",), ("a\0b",), ("é" * 128,), ("a", "a/b"), ("a", "a/b/c")],
)
def test_keys_that_would_leave_the_directory(keys: tuple[str, ...]) -> None:
    store = ObjectStore("s3://b/m", lambda kind: Objects(*keys))
    with pytest.raises(NameRefused, match=r"^holds (an object|objects) named "):
        store.files("1")


def test_marks_of_directories_are_no_files() -> None:
    store = ObjectStore("s3://b/m", lambda kind: Objects("", "variables/", "saved_model.pb"))
    assert list(store.files("1")) == ["saved_model.pb"]


def missing(package: str) -> object_store.FileSystems:
    def open_(kind: str) -> Any:
        raise ImportError(f"Install {package} to access {kind}")

    return open_


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s3://b/m", "nothing here can read s3:// paths: install the package s3fs"),
        ("gs://b/m", "nothing here can read gs:// paths: install the package gcsfs"),
        ("hdfs://b/m", "nothing here can read hdfs:// paths: Install x to access hdfs"),
        ("s3://", "s3:// names no bucket"),
        ("s3:///mnist", "s3:///mnist names no bucket"),
        ("simplecache::s3://b/m", "simplecache::s3://b/m chains several file systems"),
        ("zip://a::file:///etc", "zip://a::file:///etc chains several file systems"),
    ],
)
def test_stores_that_cannot_be_used(url: str, sentence: str) -> None:
    with pytest.raises(StoreUnusable) as caught:
        ObjectStore(url, missing("x"))
    assert str(caught.value) == sentence


def test_an_unknown_scheme() -> None:
    with pytest.raises(BasePathError, match="nothing can read nowhere:// paths: "):
        scan_base_path("nowhere://bucket/m")


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/models/m", "/models/m"), ("file:///models/m", "/models/m"), ("FILE:///m", "/m"), ("/a://b", "/a://b"),
        ("s3://b/m", None), ("memory://m", None),
    ],
)  # fmt: skip
def test_local_paths(path: str, local: str | None) -> None:
    assert local_path(path) == local


def test_a_file_url_is_a_directory_of_this_machine(tmp_path: Path) -> None:
    write(tmp_path / "3")
    assert scan_base_path(f"file://{tmp_path}").versions == (VersionDirectory(3, f"{tmp_path}/3"),)


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        ({}, {}),
        ({"S3_ENDPOINT": "minio:9000"}, {"endpoint_url": "https://minio:9000"}),
        ({"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "0"}, {"endpoint_url": "http://minio:9000"}),
        ({"S3_ENDPOINT": "http://minio:9000"}, {"endpoint_url": "http://minio:9000"}),
        ({"AWS_REGION": "eu-central-1"}, {"client_kwargs": {"region_name": "eu-central-1"}}),
        ({"S3_REGION": "a", "S3_VERIFY_SSL": "0"}, {"client_kwargs": {"region_name": "a", "verify": False}}),
    ],
)
def test_the_variables_of_tensorflows_s3(variables: dict[str, str], options: dict[str, Any]) -> None:
    found = object_store._s3_options(variables)
    del found["config_kwargs"]
    assert found == options


def test_a_saved_model_with_assets(tmp_path: Path) -> None:
    builder = GraphBuilder()
    builder.message.asset_file_def.add(filename="vocabulary.txt")
    bucket = Bucket("memory://assets")
    bucket.put("m/1/saved_model.pb", saved_model(builder))
    assert sentences("memory://assets/m") == ["memory://assets/m/1 is not offered: it lacks assets/vocabulary.txt."]
    bucket.put("m/1/assets/vocabulary.txt", b"a\n")
    assert versions("memory://assets/m") == [1]
