"""Refuses SQLite on network file systems, whose locks and shared memory do not hold what WAL needs."""

from __future__ import annotations

from pathlib import Path

from bridge.errors import FailedPrecondition

MOUNTS = Path("/proc/self/mounts")

NETWORK_TYPES = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "ncpfs", "davfs"}
)
LOCAL_FUSE_TYPES = frozenset({"fuse.fuse-overlayfs", "fuse.overlayfs", "fuse.lxcfs"})


def refuse_network(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise FailedPrecondition if `path` lies on a network file system; without the file `mounts` nothing is known."""
    if not mounts.exists():
        return
    kind = filesystem_type(path, mounts.read_text(errors="surrogateescape"))
    if is_network(kind):
        raise FailedPrecondition(
            f"'{path}' is on a network file system ({kind}), where SQLite loses data; "
            "use a local directory or PostgreSQL by --database_url."
        )


def is_network(kind: str) -> bool:
    return kind in NETWORK_TYPES or (kind.startswith("fuse.") and kind not in LOCAL_FUSE_TYPES)


def filesystem_type(path: Path, mounts: str) -> str:
    """Type of the file system that holds `path`, from the text of /proc/self/mounts; empty if none does.

    Of two mounts on one point the later one counts.
    """
    resolved = path.resolve()
    depth, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        point = Path(_unescape(fields[1]))
        if resolved.is_relative_to(point) and len(point.parts) >= depth:
            depth, kind = len(point.parts), fields[2]
    return kind


def _unescape(field: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        field = field.replace(code, character)
    return field
