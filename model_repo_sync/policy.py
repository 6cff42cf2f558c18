"""Version policies: which versions of a base path a model aspires to serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from model_repo_sync.sources import Scan, Scanner, VersionDirectory

if TYPE_CHECKING:
    from model_repo_sync.protos.tensorflow_serving import file_system_storage_path_source_pb2 as storage_pb2


@dataclass(frozen=True, slots=True)
class Latest:
    """The `num_versions` highest versions; TF Serving reads 0 as 1."""

    num_versions: int = 1

    def __post_init__(self) -> None:
        if self.num_versions < 1:
            raise ValueError(f"a 'latest' policy needs at least one version, not {self.num_versions}")

    def to_json(self) -> dict[str, Any]:
        return {"latest": {"num_versions": self.num_versions}}

    def describe(self) -> str:
        return "latest" if self.num_versions == 1 else f"latest {self.num_versions}"


@dataclass(frozen=True, slots=True)
class All:
    """Every version."""

    def to_json(self) -> dict[str, Any]:
        return {"all": {}}

    def describe(self) -> str:
        return "all"


@dataclass(frozen=True, slots=True)
class Specific:
    """Exactly those of `versions` that exist; kept sorted and without duplicates."""

    versions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", tuple(sorted(set(self.versions))))

    def to_json(self) -> dict[str, Any]:
        return {"specific": {"versions": list(self.versions)}}

    def describe(self) -> str:
        return f"specific {', '.join(map(str, self.versions)) or 'none'}"


Policy: TypeAlias = Latest | All | Specific


class Aspired(NamedTuple):
    """The versions that a policy picks, ascending, and what it has to say about them, a sentence each."""

    versions: tuple[VersionDirectory, ...]
    warnings: tuple[str, ...]


def from_json(value: Mapping[str, Any]) -> Policy:
    """The inverse of `to_json`; raises ValueError for anything else."""
    match value:
        case {"latest": {"num_versions": int(count)}} if len(value) == 1 and type(count) is int:
            return Latest(count)
        case {"all": {}} if len(value) == 1:
            return All()
        case {"specific": {"versions": [*versions]}} if len(value) == 1 and all(type(v) is int for v in versions):
            return Specific(tuple(versions))
    raise ValueError(f"{dict(value)!r} is no version policy")


def from_proto(message: storage_pb2.FileSystemStoragePathSourceConfig.ServableVersionPolicy) -> Policy:
    """A ServableVersionPolicy as TF Serving reads it: unset is latest 1."""
    match message.WhichOneof("policy_choice"):
        case "all":
            return All()
        case "specific":
            return Specific(tuple(message.specific.versions))
    return Latest(max(1, message.latest.num_versions))


def parse(text: str) -> Policy:
    """`latest`, `latest:N`, `all` or `specific:V,V,...`, as commands take it; raises ValueError for anything else."""
    kind, separator, rest = text.partition(":")
    try:
        if kind == "latest":
            return Latest(int(rest)) if separator else Latest()
        if kind == "specific" and separator:
            return Specific(tuple(int(version) for version in rest.split(",")))
    except ValueError as error:
        raise ValueError(f"{text!r} is no version policy: {error}") from error
    if text == "all":
        return All()
    raise ValueError(f"{text!r} is no version policy; use latest, latest:N, all or specific:V,V,...")


def scan(scanner: Scanner, base_path: str, policy: Policy) -> Scan:
    """A look at `base_path` that reads no version which `policy` cannot pick. Raises BasePathError."""
    newest = policy.num_versions if isinstance(policy, Latest) else None
    only = policy.versions if isinstance(policy, Specific) else None
    return scanner.scan(base_path, newest=newest, only=only)


def aspired(versions: Sequence[VersionDirectory], policy: Policy, model: str = "") -> Aspired:
    """What `policy` picks of `versions`. The warnings are TF Serving's; `model` names the servable in them."""
    ordered = tuple(sorted(versions))
    match policy:
        case Latest(num_versions=count):
            return Aspired(ordered[-count:], ())
        case All():
            return Aspired(ordered, ())
        case Specific(versions=wanted):
            return _specific(ordered, wanted, model)


def _specific(ordered: tuple[VersionDirectory, ...], wanted: tuple[int, ...], model: str) -> Aspired:
    if not wanted:
        return Aspired((), (f"No specific versions requested for servable {model}.",))
    found = {directory.version for directory in ordered}
    missing = tuple(
        f"Version {version} of servable {model}, which was requested to be served as a 'specific' version in the "
        "servable's version policy, was not found in the file system"
        for version in wanted
        if version not in found
    )
    return Aspired(tuple(directory for directory in ordered if directory.version in wanted), missing)
