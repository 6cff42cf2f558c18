"""Base paths in object stores, and in whatever else fsspec has a filesystem package for.

fsspec and its filesystem packages are optional: they are imported when a base path asks for them.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_TAGS = (
    "ETag",
    "etag",
    "generation",
    "md5Hash",
    "checksum",
    "Content-MD5",
    "Digest",
    "LastModified",
    "Last-Modified",
    "mtime",
    "updated",
    "created",
)
"""Where filesystem packages keep what changes with an object's content, the surest first."""
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
}
_LOUD = ("fsspec", "s3fs", "gcsfs", "aiobotocore")
"""They log, with tracebacks, what they raise; whoever looks here every few seconds wants to say it once."""
_INDEX_PAGE = "text/html"
"""What a web server shows for a directory; no file of a model is one."""
_HTTP_MISSING = (404, 410)
_NAME_BYTES = 255
_CHUNK = 16 << 20
_S3_TIMEOUTS = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}}

FileSystems = Callable[[str], Any]
"""Opens the fsspec filesystem of a scheme. Raises ImportError, ValueError."""


class ObjectFile(NamedTuple):
    """One object below a version directory: its size in bytes, and a tag that changes with its content."""

    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class Children:
    """What lies directly under a base path."""

    directories: frozenset[str]
    files: frozenset[str]


class StoreUnusable(Exception):
    """No store can be reached by such a URL here, in one sentence."""


class NameRefused(Exception):
    """An object's key cannot be the name of a file; the text ends the sentence that its directory begins."""


def scheme(path: str) -> str | None:
    """The scheme of a URL in lower case, None for a plain path."""
    match = _URL.fullmatch(path)
    return match[1].lower() if match else None


def local_path(path: str) -> str | None:
    """The path on this machine that a plain path or a `file://` URL names, None for what lies in a store."""
    kind = scheme(path)
    if kind is None:
        return path
    return path.partition("://")[2] if kind in ("file", "local") else None


def open_file_system(kind: str) -> Any:
    """fsspec's filesystem for a scheme, without its cache of listings.

    Credentials and addresses come from where each package looks for them, and for S3 from TensorFlow's own variables
    too. Raises ImportError, ValueError.
    """
    fsspec = importlib.import_module("fsspec")
    for package in _LOUD:
        logging.getLogger(package).setLevel(logging.CRITICAL)
    options = _s3_options(os.environ) if kind in ("s3", "s3a") else {}
    return fsspec.filesystem(kind, use_listings_cache=False, **options)


class ObjectStore:
    """The store that one base path lies in. Safe for several threads. Raises StoreUnusable where there is none.

    Its calls raise FileNotFoundError, and OSError for whatever keeps the store from answering.
    """

    def __init__(self, url: str, open_: FileSystems = open_file_system) -> None:
        self.url = url.rstrip("/")
        self._fs = _opened(url, open_)
        self._root = str(self._fs._strip_protocol(self.url)).rstrip("/")

    def children(self) -> Children:
        """The names directly under the base path, by one listing."""
        with _told(self.url):
            self._fs.invalidate_cache()
            entries = self._fs.ls(self._root, detail=True)
        kinds: dict[str, set[str]] = {"directory": set(), "file": set()}
        for entry in entries:
            name = _below(self._root, entry["name"].rstrip("/"))
            if name and "/" not in name:
                kinds["directory" if entry["type"] == "directory" else "file"].add(name)
        return Children(frozenset(kinds["directory"]), frozenset(kinds["file"]))

    def files(self, directory: str) -> Mapping[str, ObjectFile]:
        """Every object below a child of the base path, by its name there, by one listing. Raises NameRefused."""
        root = self._key(directory)
        with _told(f"{self.url}/{directory}"):
            self._fs.invalidate_cache()
            found = self._fs.find(root, detail=True)
        files = {}
        for key, info in found.items():
            # A key that ends in a slash is the mark that some tools leave for a directory.
            name = "" if key.endswith("/") else _below(root, key)
            if name and info["type"] == "file":
                # An index page of a web server lists names alone.
                known = info.get("size") is not None
                files[_checked(name)] = _object_file(info) if known else self.look_up(directory, name)
        _check_no_file_is_a_directory(files)
        return files

    def read(self, directory: str, name: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes of one object from `start` up to `end`, fewer where it has become shorter."""
        url, key = f"{self.url}/{directory}/{name}", self._key(directory, name)
        while start < end:
            with _told(url):
                data = self._fs.cat_file(key, start=start, end=min(start + _CHUNK, end))
            if not data:
                return
            yield data
            start += len(data)

    def look_up(self, directory: str, name: str) -> ObjectFile:
        """One object as it is now."""
        with _told(f"{self.url}/{directory}/{name}"):
            self._fs.invalidate_cache()
            info = self._fs.info(self._key(directory, name))
        return _object_file(info)

    def object(self, name: str) -> ObjectFile | None:
        """What lies directly under the base path by that name, None for a directory."""
        with _told(f"{self.url}/{name}"):
            self._fs.invalidate_cache()
            info = self._fs.info(self._key(name))
        is_file = info["type"] == "file" and info.get("mimetype") != _INDEX_PAGE
        return _object_file(info) if is_file else None

    def _key(self, *parts: str) -> str:
        return "/".join((self._root, *filter(None, parts)))


def _below(root: str, key: str) -> str:
    """The part of a key below `root`, empty for what does not lie there."""
    return key[len(root) + 1 :] if key.startswith(f"{root}/") else ""


def _opened(url: str, open_: FileSystems) -> Any:
    kind = scheme(url) or ""
    if "::" in url:
        raise StoreUnusable(f"{url} chains several file systems")
    place = url.partition("://")[2]
    if not place or (kind != "memory" and place.startswith("/")):
        raise StoreUnusable(f"{url} names no bucket")
    try:
        return open_(kind)
    except ImportError as error:
        package = _PACKAGES.get(kind)
        cure = f"install the package {package}" if package else str(error)
        raise StoreUnusable(f"nothing here can read {kind}:// paths: {cure}") from error
    except ValueError as error:
        raise StoreUnusable(f"nothing can read {kind}:// paths: {error}") from error
    except Exception as error:
        raise StoreUnusable(f"{kind}:// paths cannot be read: {type(error).__name__}: {error}") from error


def _s3_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """What TensorFlow's S3 file system reads from the environment, as s3fs takes it."""
    options: dict[str, Any] = {"config_kwargs": _S3_TIMEOUTS}
    client: dict[str, Any] = {}
    secure = environment.get("S3_USE_HTTPS", "1") != "0"
    endpoint = environment.get("S3_ENDPOINT")
    if endpoint:
        options["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' if secure else ''}://{endpoint}"
    region = environment.get("AWS_REGION") or environment.get("S3_REGION")
    if region:
        client["region_name"] = region
    if environment.get("S3_VERIFY_SSL", "1") == "0":
        client["verify"] = False
    return {**options, "client_kwargs": client} if client else options


def _object_file(info: Mapping[str, Any]) -> ObjectFile:
    if info.get("size") is None:
        raise OSError(errno.EIO, "the store does not tell how large it is", str(info.get("name", "")))
    return ObjectFile(int(info["size"]), _tag(info))


def _tag(info: Mapping[str, Any]) -> str:
    key = next((key for key in _TAGS if info.get(key)), "")
    value = info.get(key)
    # The same time comes as a number from one call and as a datetime from another.
    return f"{key}={value.timestamp() if isinstance(value, datetime) else value}"


def _checked(name: str) -> str:
    """Keys are any text; as file names some of them would leave the directory or could not exist."""
    for part in name.split("/"):
        if part in ("", ".", "..") or "\0" in part or len(os.fsencode(part)) > _NAME_BYTES:
            raise NameRefused(f"holds an object named {name!r}, which cannot be a file's name")
    return name


def _check_no_file_is_a_directory(files: Mapping[str, ObjectFile]) -> None:
    for name in files:
        parent = os.path.dirname(name)
        while parent:
            if parent in files:
                raise NameRefused(f"holds objects named {parent!r} and {name!r}, which cannot both be files")
            parent = os.path.dirname(parent)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Whatever a filesystem package raises, as an OSError that names the URL."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        cause = error.__cause__
        # fsspec's HTTP says so of whatever happened.
        if url.startswith("http") and cause is not None and getattr(cause, "status", 0) not in _HTTP_MISSING:
            raise OSError(errno.EIO, f"{type(cause).__name__}: {cause}", url) from error
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url) from error
    except Exception as error:
        # Each package has exceptions of its own, those of its cloud's client among them.
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}".strip(" :"), url) from error
