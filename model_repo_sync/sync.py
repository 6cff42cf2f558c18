"""One-shot synchronisation of a model's versions into a repository."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from model_repo_sync import names, policy, triton_config
from model_repo_sync.object_store import NameRefused, StoreUnusable, local_path
from model_repo_sync.policy import Policy
from model_repo_sync.repository import ModelRepository
from model_repo_sync.saved_model import SavedModelError, read_saved_model
from model_repo_sync.source_cache import DownloadError, SourceCache
from model_repo_sync.sources import Scanner, VersionDirectory
from model_repo_sync.transfer import TransferError
from model_repo_sync.triton_config import ConfigError, RunnerOptions


@dataclass(frozen=True, slots=True)
class VersionResult:
    """What became of one version: `outcome` is `written`, `unchanged` or `failed`, `error` says why in the last case.

    `name` is the version's name in Triton, `bytes` the size of what was written, `transfer` how (`link`, `copy`).
    """

    version: int
    name: str
    path: str
    outcome: str
    bytes: int = 0
    transfer: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """`versions` are the aspired ones, ascending, `removed` are names in Triton, `problems` concern the base path."""

    model: str
    versions: tuple[VersionResult, ...]
    removed: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether anything that was wanted is not there."""
        return bool(self.problems) or any(result.error for result in self.versions)


class Synchroniser:
    """Writes SavedModels with `tags` and `options` into `repository`."""

    def __init__(self, repository: ModelRepository, options: RunnerOptions, tags: Sequence[str] = ("serve",)) -> None:
        self._repository = repository
        self._options = options
        self._tags = tuple(tags)
        self._copies = SourceCache(repository.path / ".sources" / repository.deployment)
        self._scanner = Scanner(self._copies)

    def sync(self, model: str, base_path: str, wanted: Policy, *, delete: bool = False) -> SyncReport:
        """Writes the versions of `model` that `wanted` picks under `base_path`.

        With `delete` its other versions leave the repository, unless the base path offers none at all. A version that
        fails does not stop the others. Raises BasePathError.
        """
        scan = policy.scan(self._scanner, base_path, wanted)
        aspired, warnings = policy.aspired(scan.versions, wanted, model)
        results = tuple(self._write(model, directory) for directory in aspired)
        removed = self._remove_others(model, {item.version for item in aspired}) if delete and aspired else ()
        problems = (*warnings, *(problem.sentence for problem in scan.problems))
        return SyncReport(model, results, removed, problems)

    def _write(self, model: str, directory: VersionDirectory) -> VersionResult:
        version, path = directory
        name = names.servable_name(self._repository.deployment, model, version)
        try:
            local = self._fetch(path)
            saved_model = read_saved_model(local, self._tags)
            text = triton_config.generate(name, saved_model, self._options)
            done = self._repository.write(name, local, text)
        except (SavedModelError, ConfigError, TransferError) as error:
            return VersionResult(version, name, path, "failed", error=str(error))
        outcome = "written" if done.changed else "unchanged"
        return VersionResult(version, name, path, outcome, done.bytes, done.transfer, warnings=saved_model.warnings)

    def _fetch(self, path: str) -> str:
        """The local path of a version; what was downloaded stays, linked into the repository, for the next time."""
        local = local_path(path)
        if local is not None:
            return local
        try:
            return self._copies.fetch(path)
        except (OSError, NameRefused, StoreUnusable, DownloadError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise TransferError(f"{path} could not be downloaded: {reason}.") from error

    def _remove_others(self, model: str, keep: Collection[int]) -> tuple[str, ...]:
        encoded = names.encode(model)
        parsed = [(name, names.parse(name)) for name in self._repository.names()]
        own = [(name, parts) for name, parts in parsed if parts and not parts.registered and parts.encoded == encoded]
        others = [name for name, parts in own if parts.version not in keep]
        return tuple(name for name in others if self._repository.remove(name))
