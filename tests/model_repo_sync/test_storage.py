"""Storages by their configuration: directories, an S3 of moto, a web server on loopback, fsspec's memory."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from model_repo_sync.model_key import ModelKey
from model_repo_sync.storage import ContentMissing, Storage, StorageOptions, StorageUnavailable
from model_repo_sync.storage_entry import StorageError
from tests.support.object_stores import Bucket, s3_server

TREE = {"m/1/saved_model.pb": b"graph", "m/1/variables/variables.index": b"index", "net.onnx": b"net"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    directory = tmp_path / "storage-config"
    directory.mkdir()
    return directory


@pytest.fixture
def storage(tmp_path: Path, config: Path) -> Storage:
    return Storage(options(tmp_path))


def options(directory: Path) -> StorageOptions:
    return StorageOptions(
        str(directory / "models"), str(directory / "storage-config"), str(directory / "pvc"), str(directory / "cache")
    )


def write(directory: Path, tree: Mapping[str, bytes] = TREE) -> None:
    for name, data in tree.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read(path: str) -> dict[str, bytes]:
    root = Path(path)
    files = [root] if root.is_file() else [item for item in root.rglob("*") if item.is_file()]
    return {os.path.relpath(file, root): file.read_bytes() for file in files}


def configure(config: Path, name: str, /, **values: Any) -> None:
    (config / name).write_text(json.dumps(values))


def content(storage: Storage, path: str, key: ModelKey) -> dict[str, bytes]:
    with storage.content(path, key) as local:
        return read(local)


def refusal(storage: Storage, path: str, key: ModelKey) -> str:
    with pytest.raises(StorageError) as error, storage.content(path, key):
        pass
    return str(error.value)


MODEL = {"saved_model.pb": b"graph", "variables/variables.index": b"index"}

LOCAL: list[tuple[str, dict[str, Any], ModelKey]] = [
    ("models", {}, ModelKey()),
    ("models", {}, ModelKey(storage_params={"type": "local"})),
    ("models", {"here": {"type": "local"}}, ModelKey("here")),
    ("disk", {"here": {"type": "local", "path": "../disk"}}, ModelKey("here")),
    ("pvc/claim", {}, ModelKey(storage_params={"type": "pvc", "name": "claim"})),
    ("pvc/claim", {"p": {"type": "pvc", "name": "claim"}}, ModelKey("p")),
    ("pvc/claim", {"default_pvc": {"type": "pvc"}}, ModelKey(storage_params={"type": "pvc", "name": "claim"})),
    ("pvc/claim", {"default": {"type": "pvc", "name": "claim"}}, ModelKey()),
]


@pytest.mark.parametrize(("place", "entries", "key"), LOCAL)
def test_directories(
    tmp_path: Path, config: Path, storage: Storage, place: str, entries: dict[str, Any], key: ModelKey
) -> None:
    write(tmp_path / place)
    for name, values in entries.items():
        configure(config, name, **values)
    assert content(storage, "m/1", key) == MODEL
    assert content(storage, "net.onnx", key) == {".": b"net"}
    with storage.content("m/1", key) as local:
        assert os.path.samefile(local, tmp_path / place / "m/1")
    with (
        pytest.raises(ContentMissing, match=r"^There is no directory or file .*/gone\.$"),
        storage.content("gone", key),
    ):
        pass


@pytest.mark.parametrize("path", ["..", "../outside", "/etc", "m/../../outside", "link", "m/2", "file", "a\0b"])
def test_nothing_outside_of_the_root(tmp_path: Path, storage: Storage, path: str) -> None:
    """`m/2` holds a link to a file outside, `link` and `file` are such links."""
    write(tmp_path / "models")
    write(tmp_path / "outside")
    (tmp_path / "models/link").symlink_to(tmp_path / "outside")
    (tmp_path / "models/file").symlink_to(tmp_path / "outside/net.onnx")
    (tmp_path / "models/m/2").mkdir()
    (tmp_path / "models/m/2/saved_model.pb").symlink_to(tmp_path / "outside/m/1/saved_model.pb")
    sentence = refusal(storage, path, ModelKey())
    assert "leads out of --model_root=" in sentence or "embedded null" in sentence


def test_links_within_the_root_are_followed(tmp_path: Path, storage: Storage) -> None:
    write(tmp_path / "models")
    (tmp_path / "models/latest").symlink_to("m/1")
    assert content(storage, "latest", ModelKey()) == MODEL


def test_without_a_root_there_are_no_local_paths(tmp_path: Path) -> None:
    storage = Storage(StorageOptions(cache=str(tmp_path)))
    assert "no --model_root is set" in refusal(storage, "etc/passwd", ModelKey())


REFUSED = [
    (ModelKey("gone"), "Did not find storage config for key 'gone' in --storage_config_dir="),
    (ModelKey("../models"), "Did not find storage config for key '../models' in --storage_config_dir="),
    (ModelKey(".."), "Did not find storage config for key '..' in --storage_config_dir="),
    (ModelKey("directory"), "Did not find storage config for key 'directory' in --storage_config_dir="),
    (ModelKey("text"), "The storage config of 'text' is no JSON object."),
    (ModelKey("list"), "The storage config of 'list' is no JSON object."),
    (ModelKey("untyped"), "Storage 'untyped' has no type."),
    (ModelKey("azure"), "Storage of type 'azure' cannot be read here; known types: gcs, http, local, pvc, s3."),
    (ModelKey(storage_params={"type": "azure"}), "Storage of type 'azure' cannot be read here"),
    (ModelKey(storage_params={"type": "s3"}), "No storage of type 's3' is configured: there is no default_s3"),
    (ModelKey(storage_params={"type": "../s3"}), "Storage of type '../s3' cannot be read here"),
    (ModelKey("s3", {"type": "gcs"}), "Storage 's3' is of type 's3', not 'gcs'."),
    (ModelKey("s3", {"endpoint_url": "http://elsewhere"}), "The storage parameter 'endpoint_url' can only be set in "),
    (ModelKey("s3"), "Storage 's3' of type 's3' has no bucket or default_bucket."),
    (ModelKey("s3", {"bucket": "a/b"}), "'a/b' cannot be the name of a bucket."),
    (ModelKey("http"), "Storage 'http' has the url 'file:///etc', which is neither http:// nor https://."),
    (ModelKey("number"), "Storage 'number' has a url that is no text."),
    (ModelKey(storage_params={"type": "pvc", "name": "../models"}), "'../models' cannot be the name of a claim."),
    (ModelKey(storage_params={"type": "pvc", "name": ".."}), "'..' cannot be the name of a claim."),
    (ModelKey(storage_params={"type": "pvc"}), "Storage 'default' of type 'pvc' has no name."),
    (ModelKey("certificate", {"bucket": "b"}), "Storage 'certificate' has certificates that cannot be used: "),
]


@pytest.mark.parametrize(("key", "sentence"), REFUSED)
def test_storages_that_cannot_be_used(config: Path, storage: Storage, key: ModelKey, sentence: str) -> None:
    (config / "directory").mkdir()
    (config / "text").write_text("{secret")
    (config / "list").write_text("[]")
    configure(config, "untyped", bucket="b")
    configure(config, "azure", type="azure")
    configure(config, "s3", type="s3", secret_access_key="secret")
    configure(config, "http", type="http", url="file:///etc")
    configure(config, "number", type="http", url=7)
    configure(config, "certificate", type="http", url="https://h", certificate="secret")
    text = refusal(storage, "m/1", key)
    assert text.startswith(sentence)
    assert "secret" not in text


@pytest.mark.parametrize("path", ["", "/", "..", "a/../b", "a//b", "./a", "a/\0"])
def test_paths_in_stores(config: Path, storage: Storage, path: str) -> None:
    configure(config, "s3", type="s3", bucket="b")
    assert "names nothing in a store" in refusal(storage, path, ModelKey("s3"))


def downloaded(storage: Storage, tmp_path: Path, key: ModelKey) -> None:
    """What every store has in common; nothing of what was downloaded stays."""
    assert content(storage, "m/1", key) == MODEL
    assert content(storage, "/m/1/", key) == MODEL
    assert content(storage, "net.onnx", key) == {".": b"net"}
    with storage.content("m/1", key) as one, storage.content("m/1", key) as other:
        assert one == other
    for path in ("m/2", "gone.onnx"):
        with pytest.raises(ContentMissing, match=r"^There is nothing at .*\.$"), storage.content(path, key):
            pass
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != ".url"]


def test_memory(tmp_path: Path, config: Path) -> None:
    def open_(kind: str, given: Mapping[str, Any]) -> Any:
        opened.append((kind, given))
        return fsspec.filesystem("memory")

    opened: list[tuple[str, Mapping[str, Any]]] = []
    for name, data in TREE.items():
        fsspec.filesystem("memory").pipe_file(f"gs://storage-test/{name}", data)
    configure(config, "gcs", type="gcs", bucket="other", private_key="k", client_email="e")
    key = ModelKey("gcs", {"bucket": "storage-test"})
    downloaded(Storage(options(tmp_path), open_), tmp_path, key)
    token = {"type": "service_account", "private_key": "k", "client_email": "e"}
    assert opened[0] == ("gs", {"token": {**token, "token_uri": "https://oauth2.googleapis.com/token"}})


@pytest.mark.integration
def test_s3(tmp_path: Path, config: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as environment:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            bucket = Bucket("s3://models")
            for name, data in TREE.items():
                bucket.put(f"{name}", data)
        endpoint = f"http://{environment['S3_ENDPOINT']}"
        access = {"access_key_id": "test", "secret_access_key": "test", "endpoint_url": endpoint, "region": "us-east-1"}
        configure(config, "minio", type="s3", default_bucket="models", **access)
        downloaded(storage, tmp_path, ModelKey("minio"))
        downloaded(storage, tmp_path, ModelKey("minio", {"bucket": "models", "type": "s3"}))


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "web").mkdir()
    write(tmp_path / "web/a b")
    handler = functools.partial(_Quiet, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers.get("X-Token") != "t":
            self.send_error(403)
            return
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def test_http(tmp_path: Path, config: Path, storage: Storage, web: str) -> None:
    configure(config, "web", type="http", url=f"{web}/a%20b", headers={"X-Token": "t"})
    downloaded(storage, tmp_path, ModelKey("web"))
    configure(config, "root", type="http", url=web, headers={"X-Token": "t"})
    assert content(storage, "a b/net.onnx", ModelKey("root")) == {".": b"net"}


def test_what_an_earlier_server_left_is_removed(tmp_path: Path, config: Path, web: str) -> None:
    write(tmp_path / "cache" / "entry" / "place" / "m")
    configure(config, "web", type="http", url=f"{web}/a%20b", headers={"X-Token": "t"})
    downloaded(Storage(options(tmp_path)), tmp_path, ModelKey("web"))


def test_a_store_that_does_not_answer(config: Path, storage: Storage) -> None:
    configure(config, "web", type="http", url="http://127.0.0.1:1")
    with pytest.raises(StorageUnavailable, match=r"^http://127\.0\.0\.1:1/m could not be downloaded: "):
        content(storage, "m", ModelKey("web"))
