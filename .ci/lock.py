"""Prints the versions of this environment that triton-bridge with all extras needs, as constraints for pip."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("embedded", "object-stores", "postgres", "dev")
HEADER = """\
# The versions that the development environment is made of, which also spares pip its search: `make lock` renews them.
# They are no limits of the distribution; those stand in pyproject.toml.
"""


def main() -> None:
    pins: dict[str, str] = {}
    collect(Requirement(f"triton-bridge[{','.join(EXTRAS)}]"), pins, set())
    del pins["triton-bridge"]
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    Path("constraints.txt").write_text(HEADER + "".join(lines))


def collect(requirement: Requirement, pins: dict[str, str], seen: set[tuple[str, str]]) -> None:
    """Add what `requirement` brings in, itself included."""
    name = canonicalize_name(requirement.name)
    for extra in ("", *sorted(requirement.extras)):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed; run make environment first") from None
        pins[name] = found.version
        for text in found.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                collect(needed, pins, seen)


if __name__ == "__main__":
    main()
