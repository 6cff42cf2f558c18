"""Every message, field, enum value and method of the published APIs is present under its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model_repo_sync.protos import POOL
from tests.protos import contract

ENTRIES = [entry for path in contract.CONTRACTS.values() for entry in contract.read(path)]

PUBLISHED = Path(__file__).parents[3] / "shared" / "api"
"""Where the published descriptions lie beside a checkout; they are no part of it."""

PUBLISHED_MEMBER = re.compile(r"^(?:(optional|repeated) )?(?:(map<[^>]*>|[\w.]+) )?(\w+) = (\d+)$")
CONTRACT_MEMBER = re.compile(r"^(repeated )?(.+) (\w+) = (\d+)(?: in \w+)?$|^(\w+) = (\d+)$")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_everything_published_is_declared(entry: contract.Entry) -> None:
    declared = contract.members(POOL, entry.kind, entry.name)
    assert set(entry.members) <= set(declared)


@pytest.mark.parametrize("api", contract.CONTRACTS)
def test_contract_is_the_published_description(api: str) -> None:
    """The members of both, in order: labels, names, numbers and those types that the description prints."""
    path = PUBLISHED / f"{api}-api.txt"
    if not path.exists():
        pytest.skip(f"no {path.name} beside this checkout")
    published = _published_members(path.read_text())
    ours = _contract_members(contract.CONTRACTS[api])
    assert [member[2:] for member in published] == [member[2:] for member in ours]
    for (label, type_name, *_), (own_label, own_type, *_) in zip(published, ours, strict=True):
        assert (label == "repeated") == (own_label == "repeated")
        assert own_type.startswith("map<") if type_name.startswith("map<") else own_type.endswith(type_name)


def _published_members(text: str) -> list[tuple[str, str, str, int]]:
    """(label, type, name, number) of each line that is a member; a description leaves out types that are links."""
    lines = (re.sub(r"^[\w-]+\.proto:\d+", "", line.strip(" •")) for line in text.splitlines())
    matches = (PUBLISHED_MEMBER.match(line) for line in lines)
    return [(m[1] or "", m[2] or "", m[3], int(m[4])) for m in matches if m]


def _contract_members(path: Path) -> list[tuple[str, str, str, int]]:
    lines = (line for entry in contract.read(path) if entry.kind != "service" for line in entry.members)
    matches = (CONTRACT_MEMBER.match(line) for line in lines)
    return [((m[1] or "").strip(), m[2] or "", m[3] or m[5], int(m[4] or m[6])) for m in matches if m]
