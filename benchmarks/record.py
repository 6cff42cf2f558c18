"""The file of results."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path

from benchmarks.results import Json

DISTRIBUTIONS = ("triton-bridge", "tensorflow", "grpcio", "numpy")


class Record:
    """Sections by their names, with those of earlier runs that did not run now; written after each one, since a later
    one may fail. `order` is that of the file.
    """

    def __init__(self, path: Path, order: list[str]) -> None:
        before: Json = json.loads(path.read_text()) if path.exists() else {}
        self._path = path
        self._order = order
        self._sections: Json = before.get("sections", {})
        self._triton: str = before.get("versions", {}).get("triton", "")

    def of_triton(self, version: str) -> None:
        """What follows is measured with this version of Triton."""
        self._triton = version

    def add(self, name: str, section: Json) -> None:
        self._sections[name] = section
        self._path.write_text(json.dumps(self.content(), indent=1) + "\n")

    def content(self) -> Json:
        """The machine, the versions and the sections."""
        versions = {"triton": self._triton, **{name: version(name) for name in DISTRIBUTIONS}}
        sections = {name: self._sections[name] for name in self._order if name in self._sections}
        return {"machine": machine(), "versions": versions, "sections": sections}


def machine() -> dict[str, float]:
    """Cores that this process may use, and memory in GiB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 2**30)}
