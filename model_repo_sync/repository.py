"""Writes models into a Triton model repository so that Triton never sees half of one.

Content is staged beside the models and renamed in. Hard links share the source's content without its bytes: they
outlive the source's directory, but a source file that is later changed in place, not replaced, changes them too.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TextIO

from model_repo_sync import names, triton_config
from model_repo_sync.prepared_model import CONFIG, FINGERPRINT, PreparedModel
from model_repo_sync.saved_model_files import fingerprint
from model_repo_sync.transfer import Transfer, TransferError, TransferMode, sync_directory, write_file

logger = logging.getLogger(__name__)

SAVED_MODEL = os.path.join("1", "model.savedmodel")
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What `write` did. `bytes` is the size of the SavedModel, `transfer` how it came: `link`, `copy`, or empty."""

    changed: bool
    bytes: int = 0
    transfer: str = ""


def free_bytes(path: str) -> int:
    """The bytes that this user may still write on the file system of `path`."""
    return shutil.disk_usage(path).free


class ModelRepository:
    """The models of one deployment in one repository directory; those of others are left alone.

    One writer at a time for a deployment: stale staging of a writer that died is removed here, that of a live one is
    not touched. Raises OSError where the directory cannot be made.
    """

    def __init__(
        self,
        path: str | Path,
        deployment: str,
        transfer: TransferMode | str = TransferMode.AUTO,
        *,
        free: Callable[[str], int] = free_bytes,
    ) -> None:
        self.path = Path(path)
        self.deployment = deployment
        self._transfer = Transfer(TransferMode(transfer), free)
        self._staging = self.path / f".staging.{deployment}"
        self._freed = threading.Condition()
        self._taken: set[str] = set()
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_stale()

    def write(self, name: str, saved_model_path: str | Path | None, config_text: str) -> WriteResult:
        """Puts the SavedModel and its configuration under `name`; nothing is touched where they are there already.

        Without a SavedModel the model is a probe. Raises ValueError for a name that is not this deployment's,
        triton_config.ConfigError for a bad configuration, and TransferError, which leaves what was there before.
        """
        target = self._target(name)
        triton_config.validate(config_text, name)
        with self._alone(name):
            if self._is_current(target, saved_model_path, config_text):
                return WriteResult(changed=False)
            try:
                return self._write(target, saved_model_path, config_text)
            except OSError as error:
                raise _not_written(target, error) from error

    def write_prepared(self, name: str, source: str, prepared: PreparedModel) -> WriteResult:
        """Puts a model for one of Triton's own backends under `name`; messages call its files `source`.

        Nothing is touched where just that is there. Raises ValueError for a name that is not this deployment's, and
        TransferError, which leaves what was there before.
        """
        target = self._target(name)
        with self._alone(name):
            try:
                digest = prepared.fingerprint()
                if _read(target / FINGERPRINT) == digest:
                    return WriteResult(changed=False)
                return self._write_prepared(target, source, prepared, digest)
            except OSError as error:
                raise _not_written(target, error) from error

    def place(self, name: str, fill: Callable[[Path], None]) -> None:
        """Puts the directory that `fill` makes under `name`. Raises what `fill` raises, ValueError, OSError."""
        target = self._target(name)
        with self._alone(name), self._staged() as staging:
            new = staging / "new"
            fill(new)
            sync_directory(new)
            self._replace(target, new, staging / "old")

    def remove(self, name: str) -> bool:
        """Removes a model, at once for Triton's eyes; False where there is none. Raises ValueError, OSError."""
        target = self._target(name)
        with self._alone(name), self._staged() as staging:
            try:
                target.rename(staging / "removed")
            except FileNotFoundError:
                return False
            sync_directory(self.path)
        return True

    def saved_model(self, name: str) -> str | None:
        """The SavedModel directory of a model that was written, None where there is none. Raises ValueError."""
        directory = self._target(name) / SAVED_MODEL
        return os.fspath(directory) if directory.is_dir() else None

    def names(self) -> list[str]:
        """This deployment's models, sorted."""
        return sorted(name for name in os.listdir(self.path) if names.owned_by(name, self.deployment))

    def purge(self, keep: Collection[str]) -> list[str]:
        """Removes this deployment's models except `keep`; returns what it removed, sorted."""
        return [name for name in self.names() if name not in keep and self.remove(name)]

    def _target(self, name: str) -> Path:
        if not names.owned_by(name, self.deployment):
            raise ValueError(f"{name!r} is no model name of deployment {self.deployment}")
        return self.path / name

    def _is_current(self, target: Path, saved_model_path: str | Path | None, config_text: str) -> bool:
        return _read(target / CONFIG) == config_text and (saved_model_path is None or (target / SAVED_MODEL).is_dir())

    def _write(self, target: Path, saved_model_path: str | Path | None, config_text: str) -> WriteResult:
        with self._staged() as staging:
            new = staging / "new"
            (new / SAVED_MODEL).parent.mkdir(parents=True)
            result = WriteResult(changed=True)
            if saved_model_path is not None:
                source = os.fspath(saved_model_path)
                report = self._transfer.run(source, new / SAVED_MODEL)
                result = WriteResult(True, report.bytes, report.transfer)
                self._check_source(source, config_text)
            write_file(new / CONFIG, config_text.encode())
            sync_directory(new / "1")
            sync_directory(new)
            self._replace(target, new, staging / "old")
        return result

    def _write_prepared(self, target: Path, source: str, prepared: PreparedModel, digest: str) -> WriteResult:
        with self._staged() as staging:
            new = staging / "new"
            report = self._transfer.run_files(source, prepared.files, new)
            if prepared.fingerprint() != digest:
                raise TransferError(f"{source} changed while it was read, so nothing was written.")
            write_file(new / CONFIG, prepared.config.encode())
            write_file(new / FINGERPRINT, digest.encode())
            sync_directory(new)
            self._replace(target, new, staging / "old")
        return WriteResult(True, report.bytes, report.transfer)

    def _check_source(self, source: str, config_text: str) -> None:
        """The configuration was made for what was transferred, not for what the source held before or after."""
        if fingerprint(source) != triton_config.fingerprint(config_text):
            raise TransferError(f"{source} changed while it was read, so nothing was written.")

    def _replace(self, target: Path, new: Path, old: Path) -> None:
        replaced = target.exists()
        if replaced:
            target.rename(old)
        try:
            new.rename(target)
        except OSError:
            if replaced:
                old.rename(target)
            raise
        sync_directory(self.path)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """One thread at a time for each model: instances that share a repository write the same ones."""
        with self._freed:
            self._freed.wait_for(lambda: name not in self._taken)
            self._taken.add(name)
        try:
            yield
        finally:
            with self._freed:
                self._taken.discard(name)
                self._freed.notify_all()

    @contextmanager
    def _staged(self) -> Iterator[Path]:
        """A private directory on the repository's file system, locked while in use, gone afterwards."""
        directory = self._make_staged()
        try:
            with (directory / _LOCK).open("w") as lock:
                _try_lock(lock)
                yield directory
        finally:
            shutil.rmtree(directory, onerror=_log_leftover)
            self._drop_staging()

    def _make_staged(self) -> Path:
        while True:
            try:
                self._staging.mkdir(exist_ok=True)
                return Path(mkdtemp(dir=self._staging))
            except (FileExistsError, FileNotFoundError):
                # Another thread was done with the directory just now and dropped it.
                if self._staging.exists() and not self._staging.is_dir():
                    raise

    def _remove_stale(self) -> None:
        if not self._staging.is_dir():
            return
        for entry in self._staging.iterdir():
            try:
                with (entry / _LOCK).open("a") as lock:
                    stale = _try_lock(lock)
            except FileNotFoundError:
                continue
            if stale:
                logger.info("removing %s, left by a writer that died", entry)
                shutil.rmtree(entry, onerror=_log_leftover)
        self._drop_staging()

    def _drop_staging(self) -> None:
        try:
            self._staging.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _not_written(target: Path, error: OSError) -> TransferError:
    reason = f"{error.filename or target}: {error.strerror or error}"
    return TransferError(f"{target} could not be written: {reason}.")


def _try_lock(file: TextIO) -> bool:
    """Locks `file` while it is open; False where another process holds it. File systems without locks say True."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        logger.debug("%s cannot be locked: %s", file.name, error)
    return True


def _log_leftover(function: Callable[..., object], path: str, failure: tuple[type, BaseException, object]) -> None:
    logger.warning("%s stays until the next start: %s", path, failure[1])
