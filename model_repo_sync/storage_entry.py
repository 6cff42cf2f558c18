"""One storage as an operator configures it, by the names that KServe gives the values, and how fsspec reaches it."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from model_repo_sync.object_store import open_file_system

LOCAL, PVC = "local", "pvc"


class StorageError(Exception):
    """A storage that cannot be used as it is configured or asked for, in one sentence."""


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """A storage called `name`; `values` are what its file says and what a client may add."""

    name: str
    values: Mapping[str, Any]

    @property
    def type(self) -> str:
        return self.text("type")

    @property
    def identity(self) -> str:
        """A digest of everything that decides what a path means and who may read it."""
        return hashlib.sha256(json.dumps(self.values, sort_keys=True).encode()).hexdigest()[:16]

    def text(self, name: str) -> str:
        """A value, empty where there is none. Raises StorageError for a value that is no text."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise StorageError(f"Storage '{self.name}' has a {name} that is no text.")
        return value

    def required(self, *names: str) -> str:
        """The first value of these that there is. Raises StorageError."""
        value = next((value for name in names if (value := self.text(name))), "")
        if not value:
            raise StorageError(f"Storage '{self.name}' of type '{self.type}' has no {' or '.join(names)}.")
        return value


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """An entry in a store: `url` is what paths are below, `options` are those of fsspec's filesystem."""

    url: str
    options: Mapping[str, Any]
    quoted: bool = False
    """Whether paths have to be quoted to be parts of a URL."""

    def join(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/{quote(path) if self.quoted else path}"


def remote(entry: StorageEntry, private: Path) -> RemoteStorage:
    """How an entry of a type in REMOTE_TYPES is reached; `private` is a directory for certificates.

    Raises StorageError for values that are missing or cannot be used.
    """
    return REMOTE_TYPES[entry.type](entry, private)


def file_system(kind: str, options: Mapping[str, Any]) -> Any:
    """fsspec's filesystem of a scheme with these options. Raises ImportError, ValueError."""
    if not options:
        return open_file_system(kind)
    return importlib.import_module("fsspec").filesystem(kind, use_listings_cache=False, **options)


def _s3(entry: StorageEntry, private: Path) -> RemoteStorage:
    client: dict[str, Any] = {}
    if region := entry.text("region"):
        client["region_name"] = region
    if certificate := entry.text("certificate"):
        client["verify"] = os.fspath(_written(certificate, private))
    options: dict[str, Any] = {"client_kwargs": client, "anon": not entry.text("access_key_id")}
    for option, name in (("key", "access_key_id"), ("secret", "secret_access_key"), ("endpoint_url", "endpoint_url")):
        if value := entry.text(name):
            options[option] = value
    return RemoteStorage(f"s3://{_bucket(entry)}", options)


def _gcs(entry: StorageEntry, private: Path) -> RemoteStorage:
    url = f"gs://{_bucket(entry)}"
    if not entry.text("private_key"):
        return RemoteStorage(url, {"token": "anon"})
    token = {
        "type": "service_account",
        "private_key": entry.text("private_key"),
        "client_email": entry.required("client_email"),
        "token_uri": entry.text("token_uri") or "https://oauth2.googleapis.com/token",
    }
    return RemoteStorage(url, {"token": token})


def _http(entry: StorageEntry, private: Path) -> RemoteStorage:
    url = entry.required("url")
    if not url.startswith(("http://", "https://")):
        raise StorageError(f"Storage '{entry.name}' has the url '{url}', which is neither http:// nor https://.")
    options: dict[str, Any] = {"encoded": True}
    headers = entry.values.get("headers")
    if isinstance(headers, dict):
        options["headers"] = {str(name): str(value) for name, value in headers.items()}
    if url.startswith("https://") and (entry.text("certificate") or entry.text("client_certificate")):
        options["ssl"] = _tls(entry)
    return RemoteStorage(url, options, quoted=True)


REMOTE_TYPES: Mapping[str, Callable[[StorageEntry, Path], RemoteStorage]] = {"gcs": _gcs, "http": _http, "s3": _s3}
TYPES = sorted([LOCAL, PVC, *REMOTE_TYPES])


def _bucket(entry: StorageEntry) -> str:
    bucket = entry.required("bucket", "default_bucket")
    if "/" in bucket or ":" in bucket:
        raise StorageError(f"'{bucket}' cannot be the name of a bucket.")
    return bucket


def _tls(entry: StorageEntry) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=entry.text("certificate") or None)
        if entry.text("client_certificate"):
            _load_client(context, entry.text("client_certificate"), entry.required("client_key"))
    except (ssl.SSLError, ValueError) as error:
        raise StorageError(f"Storage '{entry.name}' has certificates that cannot be used: {error}.") from error
    return context


def _load_client(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """OpenSSL takes these only from a file, which nobody else can read and which is gone afterwards."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        context.load_cert_chain(file.name)


def _written(certificate: str, private: Path) -> Path:
    """botocore takes authorities only from a file."""
    path = private / f"{hashlib.sha256(certificate.encode()).hexdigest()[:16]}.pem"
    if not path.exists():
        private.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=private, delete=False) as file:
            file.write(certificate)
        os.replace(file.name, path)
    return path
