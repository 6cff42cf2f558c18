from __future__ import annotations

from pathlib import Path

import pytest

from model_repo_sync.runner.tensorflow_engine.machine import available_memory

MEMINFO = {"proc/meminfo": "MemTotal:       10 kB\nMemAvailable:    5 kB\n"}


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, 0),
        (MEMINFO, 5120),
        (MEMINFO | {"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "7\n"}, 5120),
        (
            MEMINFO
            | {
                "sys/fs/cgroup/memory.max": "4000\n",
                "sys/fs/cgroup/memory.current": "3000\n",
                "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 500\n",
            },
            1500,
        ),
        (
            MEMINFO
            | {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "4000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "3000\n",
                "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
            },
            1100,
        ),
        ({"sys/fs/cgroup/memory.max": "10\n", "sys/fs/cgroup/memory.current": "30\n"}, 0),
    ],
    ids=["nothing-known", "whole-machine", "no-limit", "cgroup-2", "cgroup-1", "over-the-limit"],
)
def test_available_memory(tmp_path: Path, files: dict[str, str], available: int) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert available_memory(tmp_path) == available


def test_this_machine_has_some() -> None:
    assert available_memory() > 10 << 20
