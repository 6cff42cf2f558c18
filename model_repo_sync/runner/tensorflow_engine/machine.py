"""Memory that new processes can have on this machine, or in this container."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")


def available_memory(root: Path = ROOT) -> int:
    """Bytes: what the kernel takes for available, or less where a control group's limit is nearer; 0 if unknown."""
    known = [
        value
        for value in (
            _meminfo(root / "proc/meminfo"),
            _under_limit(root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
            _under_limit(
                root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            ),
        )
        if value is not None
    ]
    return max(0, min(known, default=0))


def _meminfo(path: Path) -> int | None:
    kibibytes = _table(path, ":").get("MemAvailable")
    return int(kibibytes.split()[0]) * 1024 if kibibytes else None


def _under_limit(group: Path, limit: str, usage: str, cache: str) -> int | None:
    """What a group may still take, the file pages counted that it would give back first; None without a limit."""
    most, used = _number(group / limit), _number(group / usage)
    if most is None or used is None:
        return None
    return most - used + int(_table(group / "memory.stat", " ").get(cache, "0"))


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else None


def _table(path: Path, separator: str) -> dict[str, str]:
    rows = (line.partition(separator) for line in _read(path).splitlines())
    return {name: value.strip() for name, _, value in rows}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
