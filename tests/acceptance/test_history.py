"""What the history says of a real server: versions that come, labels that move, a kill, and a restart."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import moments
from tests.support.bridge_server import BridgeServer
from tests.support.official_client import export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

BRIDGE = str(Path(sys.executable).with_name("bridge"))


class Place:
    """A server of the newest version of `numbered`."""

    def __init__(self, directory: Path) -> None:
        self.base_path = directory / "numbered"
        export(self.base_path, 1)
        self.server = BridgeServer(directory / "bridge", "--model_name=numbered", f"--model_base_path={self.base_path}")

    def ask(self, *arguments: str) -> Any:
        """The JSON of a `bridge` command on the state directory."""
        command = [BRIDGE, *arguments, "--json", f"--state_dir={self.server.state_dir}"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)

    def live(self, subject: str = "numbered") -> list[Any]:
        intervals: list[Any] = self.ask("history", "live", subject)["live"]
        return intervals

    def wait_live(self, version: int) -> Any:
        """The open interval of a version, once it is live."""

        def is_live() -> bool:
            intervals = self.live()
            return bool(intervals) and (intervals[-1]["state"]["version"], intervals[-1]["end"]) == (version, None)

        wait_for(is_live, 30, f"version {version} is live")
        return self.live()[-1]

    def at(self, microseconds: int, subject: str = "numbered") -> Any:
        return self.ask("history", "at", moments.describe(microseconds), subject)["state"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    with place.server:
        yield place


def test_what_was_live_over_rollovers_labels_kills_and_restarts(place: Place) -> None:
    first = place.wait_live(1)
    export(place.base_path, 2)
    second = place.wait_live(2)
    assert (second["state"]["path"], second["source"], second["cause"].partition(" (")[0]) == (
        str(place.base_path / "2"),
        "poller",
        "version observed",
    )
    assert len(second["state"]["fingerprint"]) == 64
    assert place.ask("labels", "set", "numbered", "stable", "2", "--reason=it is better") == {"changed": True}
    wait_for(lambda: place.live("numbered/stable"), 20, "the label is live")
    (label,) = place.live("numbered/stable")
    assert (label["reason"], label["cause"].partition(" (")[0]) == ("it is better", "label set")

    (model,) = place.at(second["start"] - 1)["subjects"]
    assert (model["live"]["state"]["version"], model["live"]["since"]) == (1, first["start"])
    changes = place.ask("history", "diff", moments.describe(first["start"]), moments.describe(second["start"]))["diff"]
    (live,) = [item for item in changes["subjects"] if (item["subject"], item["aspect"]) == ("model:numbered", "live")]
    assert {"path": "version", "before": 1, "after": 2} in live["changes"]

    place.server.kill()
    between = time.time_ns() // 1000
    place.server.start()
    place.wait_live(2)
    state = place.at(between)
    start, end = state["gap"]
    assert start < between < end
    assert state["subjects"][0]["live"]["state"] is None
    intervals = place.live()
    assert [(item["state"]["version"], item["end"] is None) for item in intervals] == [
        (1, False),
        (2, False),
        (2, True),
    ]
    assert intervals[1]["end"] == max(start, intervals[1]["start"])
    assert intervals[2]["cause"] == second["cause"]
    (lost,) = place.server.events(action="server lost")
    assert lost["after"]["until"] == start

    place.server.terminate()
    ended = place.live()[-1]["end"]
    assert ended is not None
    assert place.live("numbered/stable")[-1]["end"] == ended
