"""Local copies of version directories that lie in object stores.

A copy's modification time stands for the object's tag, so size and time alone tell whether a file is up to date, over
restarts too, and the SavedModel's fingerprint follows the content.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from model_repo_sync.object_store import FileSystems, ObjectFile, ObjectStore, open_file_system

logger = logging.getLogger(__name__)

_PARTS = ".parts"
_URL = ".url"


class DownloadError(Exception):
    """A version could not be brought here, in one sentence; what arrived is kept for the next try."""


class SourceCache:
    """Copies below `root`, one directory for each base path and in it one for each version directory.

    Safe for several threads. `free` tells the bytes that may still be written on the file system of a path.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        free: Callable[[str], int] | None = None,
        open_file_system: FileSystems = open_file_system,
    ) -> None:
        self.root = Path(root)
        self._free = free or (lambda path: shutil.disk_usage(path).free)
        self._open = open_file_system
        self._locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
        self._holders: Counter[Path] = Counter()
        self._guard = threading.Lock()

    def store(self, base_url: str) -> ObjectStore:
        """The store of a base path. Raises StoreUnusable."""
        return ObjectStore(base_url, self._open)

    def bring(self, store: ObjectStore, directory: str, name: str, file: ObjectFile) -> str:
        """The local path of one file that is up to date. Raises DownloadError, OSError."""
        copy = self._copy(store.url, directory)
        with self._locked(copy):
            self._check_space(copy, {name: file})
            self._download(store, directory, copy, name, file)
        return os.fspath(copy / name)

    def fetch(self, url: str) -> str:
        """The local path of a version directory with all its files as they are now.

        What is up to date is not read again, and an interrupted download goes on where it ended.

        Raises FileNotFoundError where the store has none, NameRefused, StoreUnusable, DownloadError, OSError.
        """
        base, _, directory = url.rpartition("/")
        store = self.store(base)
        files = store.files(directory)
        if not files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
        copy = self._copy(store.url, directory)
        with self._locked(copy):
            self._check_space(copy, files)
            for name, file in files.items():
                self._download(store, directory, copy, name, file)
            _remove_others(copy, files)
            shutil.rmtree(copy.with_name(f"{directory}{_PARTS}"), ignore_errors=True)
        return os.fspath(copy)

    def fetch_any(self, url: str) -> str:
        """The local path of one file, or else that of a directory with all its files, as `fetch` brings it."""
        base, _, name = url.rpartition("/")
        store = self.store(base)
        file = store.object(name)
        if file is None:
            return self.fetch(url)
        copy = self._copy(store.url, name)
        with self._locked(copy):
            self._check_space(copy, {name: file})
            self._download(store, "", copy, name, file)
            _remove_others(copy, {name: file})
            shutil.rmtree(copy.with_name(f"{name}{_PARTS}"), ignore_errors=True)
        return os.fspath(copy / name)

    def path_of(self, url: str) -> str:
        """Where the copy of a version directory lies, or would lie."""
        base, _, directory = url.rpartition("/")
        return os.fspath(self._place(base) / directory)

    def hold(self, path: str) -> None:
        """Keep the copy at `path` until a `release` for each hold."""
        with self._guard:
            self._holders[Path(path)] += 1

    def release(self, path: str) -> None:
        """Give one hold back; the last one takes the copy away."""
        with self._guard:
            self._holders[Path(path)] -= 1
        self.discard(path)

    def discard(self, path: str) -> None:
        """Remove the copy at `path` unless somebody holds it. Paths outside this cache are left alone."""
        copy = Path(path)
        with self._guard:
            if self._holders[copy] > 0:
                return
            del self._holders[copy]
        if copy.parent.parent == self.root:
            self._remove(copy)

    def forget_others(self, base_url: str, directories: Collection[str]) -> None:
        """Remove copies under a base path that nobody holds and that are not among `directories`."""
        place = self._place(base_url)
        found = {entry.name.removesuffix(_PARTS) for entry in _entries(place)} - {_URL}
        for name in found - set(directories):
            self.discard(os.fspath(place / name))

    def forget_other_bases(self, base_urls: Collection[str]) -> None:
        """Remove copies of base paths that are not among `base_urls` and of which nobody holds any."""
        places = {self._place(url) for url in base_urls}
        with self._guard:
            places |= {copy.parent for copy, count in self._holders.items() if count > 0}
        for place in _entries(self.root):
            if place not in places:
                logger.info("removing %s: no configured base path is behind it", place)
                shutil.rmtree(place, ignore_errors=True)

    def _place(self, base_url: str) -> Path:
        return self.root / hashlib.sha256(base_url.rstrip("/").encode(errors="surrogatepass")).hexdigest()[:16]

    def _copy(self, base_url: str, directory: str) -> Path:
        place = self._place(base_url)
        if not place.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            (place / _URL).write_text(base_url, errors="replace")
        return place / directory

    @contextmanager
    def _locked(self, copy: Path) -> Iterator[None]:
        with self._guard:
            lock = self._locks[copy]
        with lock:
            yield

    def _check_space(self, copy: Path, files: Mapping[str, ObjectFile]) -> None:
        needed = sum(
            file.size - _part_size(copy, name, file) for name, file in files.items() if _is_new(copy, name, file)
        )
        free = self._free(os.fspath(copy.parent)) if needed else 0
        if needed > free:
            raise DownloadError(
                f"a download needs {needed} bytes on the file system of {copy.parent}, which has {free} free"
            )

    def _download(self, store: ObjectStore, directory: str, copy: Path, name: str, file: ObjectFile) -> None:
        target = copy / name
        if not _is_new(copy, name, file):
            return
        part = _part(copy, name, file)
        part.parent.mkdir(parents=True, exist_ok=True)
        start = _part_size(copy, name, file)
        with part.open("ab") as sink:
            for data in store.read(directory, name, start, file.size):
                sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        self._check_arrived(store, directory, name, file, part)
        os.utime(part, (_time(file), _time(file)))
        _make_room(copy, target)
        part.replace(target)

    def _check_arrived(self, store: ObjectStore, directory: str, name: str, file: ObjectFile, part: Path) -> None:
        """Ranges may have come from before and after a change of the object."""
        size = part.stat().st_size
        if size == file.size and store.look_up(directory, name) == file:
            return
        part.unlink()
        raise DownloadError(f"{store.url}/{directory}/{name} changed while it was read")

    def _remove(self, copy: Path) -> None:
        with self._locked(copy):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.rmtree(copy.with_name(f"{copy.name}{_PARTS}"), ignore_errors=True)


class TemporaryCache(SourceCache):
    """A cache that goes with its last user, for a look without a repository."""

    def __init__(self) -> None:
        super().__init__(tempfile.mkdtemp(prefix="model-sources-"))
        weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)


def _is_new(copy: Path, name: str, file: ObjectFile) -> bool:
    try:
        status = (copy / name).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    return (status.st_size, int(status.st_mtime)) != (file.size, _time(file))


def _time(file: ObjectFile) -> int:
    """Seconds; 31 bits of the tag's hash, which every file system keeps."""
    return int.from_bytes(hashlib.sha256(file.tag.encode()).digest()[:4]) >> 1


def _part(copy: Path, name: str, file: ObjectFile) -> Path:
    """Where an unfinished download of just this content lies."""
    identity = hashlib.sha256(f"{name}\0{file.size}\0{file.tag}".encode(errors="surrogatepass")).hexdigest()[:32]
    return copy.with_name(f"{copy.name}{_PARTS}") / identity


def _part_size(copy: Path, name: str, file: ObjectFile) -> int:
    try:
        return min(_part(copy, name, file).stat().st_size, file.size)
    except FileNotFoundError:
        return 0


def _make_room(copy: Path, target: Path) -> None:
    """What was a file may be a directory by now, and the other way round."""
    for parent in reversed(target.parents):
        if parent.is_relative_to(copy) and not parent.is_dir():
            parent.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        shutil.rmtree(target)


def _remove_others(copy: Path, files: Mapping[str, ObjectFile]) -> None:
    for directory, _, names in os.walk(copy, topdown=False):
        for name in names:
            path = Path(directory, name)
            if path.relative_to(copy).as_posix() not in files:
                path.unlink()
        if directory != os.fspath(copy) and not os.listdir(directory):
            os.rmdir(directory)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
