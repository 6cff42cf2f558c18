"""The directory that holds what one bridge process keeps: database, repository, logs, and the lock on them."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.errors import FailedPrecondition
from bridge.triton import shared_memory_files

logger = logging.getLogger(__name__)

PRIVATE_PREFIX = "triton-bridge-"
PROBE_GRACE = 0.5
"""Seconds for which `acquire` retries: `read_server` of another process holds the lock for microseconds."""


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What a running server tells the commands: its process, the ports that it serves, by name, and which of them are
    TLS."""

    pid: int
    ports: Mapping[str, int]
    secure: frozenset[str] = frozenset()


class StateDir:
    """One state directory. `acquire` makes it this process's own until `release` or the process's end.

    Layout: `lock` (flock, pid inside), `server.json`, `bridge.db`, `repository/`, `sources/`, `backends/`, `triton/`,
    `triton.log`.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self._lock: int | None = None
        self._private = False

    @classmethod
    def private(cls, parent: Path | None = None) -> StateDir:
        """A fresh, already acquired directory under `parent` (default: the system's temporary directory).

        It goes away on `release`. Those that killed processes left there are removed first, with their shared memory.
        """
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent)
        unlocked = Path(tempfile.mkdtemp(prefix=f".{PRIVATE_PREFIX}", dir=parent))
        state = cls(unlocked)
        state.acquire()
        # Only a locked directory gets the name that sweeps look for.
        state.path = unlocked.rename(parent / unlocked.name.removeprefix("."))
        state._private = True
        return state

    @property
    def database_path(self) -> Path:
        return self.path / "bridge.db"

    @property
    def repository_path(self) -> Path:
        """The model repository of the embedded Triton."""
        return self.path / "repository"

    @property
    def backends_path(self) -> Path:
        return self.path / "backends"

    @property
    def triton_path(self) -> Path:
        """Working files of the embedded Triton that are made anew at each start."""
        return self.path / "triton"

    @property
    def triton_log_path(self) -> Path:
        return self.path / "triton.log"

    @property
    def lock_path(self) -> Path:
        return self.path / "lock"

    @property
    def server_json(self) -> Path:
        return self.path / "server.json"

    @property
    def held(self) -> bool:
        return self._lock is not None

    def acquire(self) -> None:
        """Create the directory where it is missing and lock it; what a killed server said of itself goes away.

        Raises FailedPrecondition when another live process holds it, or when it cannot be made or written.
        """
        if self._lock is not None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise FailedPrecondition(f"State directory '{self.path}' cannot be used: {error.strerror}.") from error
        if not _lock_within(descriptor, PROBE_GRACE):
            os.close(descriptor)
            raise FailedPrecondition(
                f"State directory '{self.path}' is in use by process {self._holder()}; "
                "stop that process or name another directory with --state_dir."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock = descriptor
        self.remove_server()

    def release(self) -> None:
        """Give the directory back. A private one is removed."""
        if self._lock is None:
            return
        if self._private:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.remove_server()
        os.close(self._lock)
        self._lock = None

    def write_server(self, ports: Mapping[str, int], secure: Collection[str] = ()) -> None:
        """Tell the commands where this process serves; atomic, so that a reader never sees half a file."""
        text = json.dumps({"pid": os.getpid(), "ports": dict(ports), "secure": sorted(secure)}, indent=2)
        _write(self.server_json, text + "\n")

    def read_server(self) -> ServerRecord | None:
        """The live server of this directory, or None: a record that a killed server left does not count."""
        if not self.is_live():
            return None
        try:
            record = json.loads(self.server_json.read_text())
            ports = {name: int(port) for name, port in record["ports"].items()}
            return ServerRecord(int(record["pid"]), ports, frozenset(record.get("secure", ())))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FailedPrecondition(f"'{self.server_json}' is not a server record: {error}.") from error

    def remove_server(self) -> None:
        self.server_json.unlink(missing_ok=True)

    def is_live(self) -> bool:
        """Whether some process, this one included, holds the directory."""
        if self.held:
            return True
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def shared_memory_prefix(self) -> str:
        """How every shared-memory file of this directory's bridge begins: `bridge_<12 hex digits>_`."""
        return f"bridge_{self.identity()}_"

    def identity(self) -> str:
        """12 hex digits that stay with the directory, so that the next start knows what a killed one left.

        A copy of the directory has another inode and gets digits of its own: it must not remove what the original uses.
        """
        inode = self.path.stat().st_ino
        path = self.path / "identity"
        words = path.read_text().split() if path.exists() else []
        if len(words) != 2 or words[1] != str(inode):
            words = [secrets.token_hex(6), str(inode)]
            _write(path, " ".join(words) + "\n")
        return words[0]

    def _holder(self) -> str:
        try:
            return self.lock_path.read_text().strip() or "unknown"
        except OSError:
            return "unknown"


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_within(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _try_lock(descriptor, fcntl.LOCK_EX):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def _sweep(parent: Path) -> None:
    """Remove the private directories whose process is gone, and only those of this user."""
    for path in parent.glob(f"{PRIVATE_PREFIX}*"):
        try:
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            _remove_dead(path)
        except OSError as error:
            logger.debug("Left %s in place: %s", path, error)


def _remove_dead(path: Path) -> None:
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _try_lock(descriptor, fcntl.LOCK_EX):
            shared_memory_files.remove(StateDir(path).shared_memory_prefix())
            shutil.rmtree(path)
            logger.info("Removed %s, which a killed process had left.", path)
    finally:
        os.close(descriptor)
