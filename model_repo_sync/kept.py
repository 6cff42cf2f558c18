"""Contents that served once and are kept for a way back, beside the model repository, by hard links where possible.

Below the root each model has a directory, and in it one for each content: `kept.json` says what it is, `content` is
the SavedModel. A content is renamed in as a whole, and never changed.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp

from model_repo_sync import names
from model_repo_sync.repository import free_bytes
from model_repo_sync.transfer import Transfer, TransferError, TransferMode, sync_directory, write_file

logger = logging.getLogger(__name__)

MANIFEST, CONTENT = "kept.json", "content"
_STAGED = ".new."
_DIGITS = 32
"""Of a digest in a directory's name: enough to tell contents apart, and short enough for any path."""


@dataclass(frozen=True, slots=True)
class KeptContent:
    """A version's content. `source` is where its files came from, `served_at` when it served last, microseconds UTC."""

    model: str
    version: int
    sha256: str
    source: str
    served_at: int


class KeptContents:
    """The kept contents below `root`. Safe for several threads as long as each model has one at a time."""

    def __init__(self, root: Path, mode: TransferMode, free: Callable[[str], int] = free_bytes) -> None:
        """`mode` is how files of others are kept; those of our own repository are linked where that is possible."""
        self._root = root
        self._foreign = Transfer(mode, free)
        self._own = Transfer(TransferMode.AUTO, free)

    def path(self, model: str, version: int, sha256: str) -> str:
        """Where that content lies, or would lie."""
        return os.fspath(self._place(model, version, sha256) / CONTENT)

    def find(self, model: str, version: int, sha256: str) -> KeptContent | None:
        """That content, None where it is not kept."""
        found = _read(self._place(model, version, sha256))
        return found if found is not None and found.sha256 == sha256 else None

    def contents(self, model: str) -> list[KeptContent]:
        """What is kept of a model, what served last first."""
        found = (_read(place) for place in _entries(self._root / names.encode(model)))
        kept = (content for content in found if content is not None and content.model == model)
        return sorted(kept, key=lambda content: (content.served_at, content.version), reverse=True)

    def keep(self, content: KeptContent, directory: str, *, own: bool) -> bool:
        """Keep what lies in `directory`, or note that it served again; whether that was not kept before.

        `own` says that nobody but us writes there. Raises TransferError, which leaves nothing behind.
        """
        place = self._place(content.model, content.version, content.sha256)
        try:
            if _read(place) is not None:
                _write_manifest(place, content)
                return False
            self._bring(place, content, directory, self._own if own else self._foreign)
        except OSError as error:
            raise TransferError(f"{directory} could not be kept: {error.strerror or error}.") from error
        return True

    def prune(self, model: str, count: int, needed: Callable[[KeptContent], bool]) -> list[KeptContent]:
        """Remove all but those that are `needed` and the `count` others that served last; what was removed."""
        others = [content for content in self.contents(model) if not needed(content)]
        for content in others[count:]:
            self._remove(self._place(content.model, content.version, content.sha256))
        self._remove_stale(model)
        return others[count:]

    def _place(self, model: str, version: int, sha256: str) -> Path:
        return self._root / names.encode(model) / f"{version}.{sha256[:_DIGITS]}"

    def _bring(self, place: Path, content: KeptContent, directory: str, transfer: Transfer) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        new = Path(mkdtemp(prefix=_STAGED, dir=place.parent))
        try:
            transfer.run(directory, new / CONTENT)
            _write_manifest(new, content)
            sync_directory(new)
            # What lies there without a manifest is of no use to anybody.
            shutil.rmtree(place, ignore_errors=True)
            new.rename(place)
            sync_directory(place.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _remove(self, place: Path) -> None:
        """The manifest goes first: a content that is half gone is none."""
        try:
            (place / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(place)
        except OSError as error:
            logger.warning("%s stays for now: %s", place, error)

    def _remove_stale(self, model: str) -> None:
        """What a process left that died while it brought or removed a content."""
        for place in _entries(self._root / names.encode(model)):
            if not (place / MANIFEST).exists():
                self._remove(place)


def _write_manifest(place: Path, content: KeptContent) -> None:
    staged = place / f"{_STAGED}{MANIFEST}"
    write_file(staged, json.dumps(asdict(content)).encode())
    staged.rename(place / MANIFEST)


def _read(place: Path) -> KeptContent | None:
    try:
        content = KeptContent(**json.loads((place / MANIFEST).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return content if (place / CONTENT).is_dir() else None


def _entries(directory: Path) -> Collection[Path]:
    try:
        return list(_directories(directory))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        return []


def _directories(directory: Path) -> Iterator[Path]:
    with os.scandir(directory) as entries:
        yield from (Path(entry.path) for entry in entries)
