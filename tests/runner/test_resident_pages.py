"""Which mapped pages may be given back, and that they come again."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import pytest

from model_repo_sync.runner.tensorflow_engine import resident_pages
from model_repo_sync.runner.tensorflow_engine.resident_pages import Mapping, is_copy, parse

SMAPS = """\
7f00-7f10 r--p 00000000 fe:00 12 /a/tensorflow/lib one.so
Size:                 64 kB
Rss:                  64 kB
Anonymous:             0 kB
7f10-7f20 rw-p 00010000 fe:00 12 /a/tensorflow/lib one.so
Anonymous:            12 kB
7f20-7f30 rw-p 00000000 00:00 0
Anonymous:             4 kB
"""


def test_mappings_of_smaps() -> None:
    assert list(parse(SMAPS.splitlines(keepends=True))) == [
        Mapping(0x7F00, 0x7F10, "r--p", "/a/tensorflow/lib one.so", 0),
        Mapping(0x7F10, 0x7F20, "rw-p", "/a/tensorflow/lib one.so", 12),
        Mapping(0x7F20, 0x7F30, "rw-p", "", 4),
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"permissions": "r-xp"}, True),
        ({"permissions": "rw-p"}, False),
        ({"permissions": "r--s"}, False),
        ({"anonymous": 4}, False),
        ({"path": "/a/tensorflow2/lib.so"}, False),
        ({"path": "/a/tensorflow/lib.so (deleted)"}, False),
        ({"path": ""}, False),
    ],
)
def test_only_pages_that_equal_the_file_are_dropped(change: dict[str, Any], expected: bool) -> None:
    mapping = Mapping(0, 4096, "r--p", "/a/tensorflow/lib.so", 0)._replace(**change)
    assert is_copy(mapping, Path("/a/tensorflow")) is expected


def resident(path: Path) -> int:
    """Kibibytes of a file that this process has at hand."""
    text = Path("/proc/self/smaps").read_text()
    tail = text[text.index(str(path)) :]
    return int(next(line for line in tail.splitlines() if line.startswith("Rss:")).split()[1])


def test_dropped_pages_come_back(tmp_path: Path) -> None:
    path = tmp_path / "library"
    path.write_bytes(bytes(range(256)) * 4096)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as content:
        assert sum(content[:: mmap.PAGESIZE]) == 0
        assert resident(path) == 1024
        resident_pages.drop(tmp_path)
        assert resident(path) == 0
        assert content[-256:] == bytes(range(256))
