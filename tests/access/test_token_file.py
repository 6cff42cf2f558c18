"""The file of the identities while it changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from pathlib import Path

import pytest

from bridge.access.entries import digest
from bridge.access.identities import Identities
from bridge.access.token_file import TokenFile
from bridge.errors import InvalidArgument
from tests.access.callers import StandingClock
from tests.support.waiting import wait_for


class Place:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.identities = Identities(StandingClock())
        self.file = TokenFile(str(path), self.identities)

    def write(self, *tokens: str, mode: int = 0o600) -> None:
        """Put a new file in the place of the old one, as careful editors do."""
        entries = [{"name": token, "token": token, "scopes": ["read"]} for token in tokens]
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps({"identities": entries}))
        draft.chmod(mode)
        os.replace(draft, self.path)

    def known(self, token: str) -> bool:
        return digest(token) in self.identities.entries.tokens


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "tokens.json")


def test_a_changed_file_is_read_again(place: Place) -> None:
    place.write("one")
    place.file.load()
    assert place.known("one")
    before = place.identities.entries
    place.file.refresh()
    assert place.identities.entries is before
    place.write("two")
    place.file.refresh()
    assert (place.known("one"), place.known("two")) == (False, True)


def test_a_bad_file_changes_nothing_and_is_told_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.write("one")
    place.file.load()
    with caplog.at_level(logging.INFO):
        place.path.write_text("{")
        for _ in range(3):
            place.file.refresh()
        assert place.known("one")
        place.path.unlink()
        for _ in range(3):
            place.file.refresh()
        assert place.known("one")
        place.write("one", "two")
        place.file.refresh()
    assert place.known("two")
    bad, gone, good = caplog.messages
    assert bad.startswith(f"--access_token_file={place.path} cannot be used: it is not JSON")
    assert gone.startswith(f"--access_token_file={place.path} cannot be read: No such file or directory;")
    assert good == f"{place.path} was read again: 2 tokens, 0 certificate subjects"


def test_the_same_file_may_come_back(place: Place) -> None:
    place.write("one")
    place.file.load()
    kept = place.path.rename(place.path.with_suffix(".kept"))
    place.file.refresh()
    kept.rename(place.path)
    place.file.refresh()
    assert place.known("one")


def test_a_start_refuses_a_bad_file(place: Place) -> None:
    with pytest.raises(InvalidArgument, match=r"cannot be read: No such file or directory$"):
        place.file.load()
    place.path.write_text("{}")
    with pytest.raises(InvalidArgument, match="cannot be used: it is not of the form"):
        place.file.load()


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o640, 1), (0o604, 1)])
def test_tokens_that_others_may_read_are_told(
    place: Place, caplog: pytest.LogCaptureFixture, mode: int, warnings: int
) -> None:
    place.write("one", mode=mode)
    place.file.load()
    assert len(caplog.messages) == warnings
    assert "one" not in caplog.text.replace("tokens.json", "")


async def test_watching(place: Place) -> None:
    place.write("one")
    place.file.load()
    task = asyncio.create_task(place.file.watch(0.01))
    place.write("two")
    await asyncio.to_thread(wait_for, lambda: place.known("two"), 10, "the new file was read")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
