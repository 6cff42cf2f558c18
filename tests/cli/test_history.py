"""`bridge history` against a running admin API and against the database alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from bridge import moments
from bridge.cli.main import main
from bridge.registry import Registry, schema
from bridge.registry.database import sqlite_url
from bridge.registry.live import Move, ServedVersion
from bridge.registry.records import Actor, ModelSpec, Owner
from bridge.serving.routes import VersionState
from tests.cli.state_place import StatePlace, live_server
from tests.registry.conftest import ManualClock

SECOND = 1_000_000
ALICE = Actor("alice", "CLI", "a better model")
POLLER = Actor("bridge", "poller")


class Place(StatePlace):
    """A state directory whose model `half` got a second version, and the commands run on it."""

    group = ("history",)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.clock = ManualClock()
        url = sqlite_url(path / "bridge.db")
        schema.upgrade(url, clock=self.clock)
        with closing(Registry.open(url, clock=self.clock)) as registry:
            self.added = self.tick()
            registry.put_model(ModelSpec("half", "/models/half"), Owner.CONFIG, ALICE)
            for version in (1, 2):
                self._serve(registry, version)
            self.served = self.clock.time
            self.tick()
            registry.set_label("half", "stable", 2, ALICE)

    def tick(self) -> str:
        """The time a second later."""
        self.clock.advance(SECOND)
        return moments.describe(self.clock.time)

    def _serve(self, registry: Registry, version: int) -> None:
        self.tick()
        for state in (VersionState.START, VersionState.AVAILABLE):
            path = f"/models/half/{version}"
            registry.record_version("half", version, int(state), path=path, fingerprint=f"f{version}", actor=POLLER)
        registry.record_moves([Move("model:half", ServedVersion("half", version, (version,)))], POLLER)


@pytest.fixture
def offline(tmp_path: Path) -> Place:
    return Place(tmp_path / "state")


@pytest.fixture
def online(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "state")
    with live_server(place.path):
        yield place


@pytest.fixture(params=["offline", "online"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def test_events_with_every_filter(place: Place) -> None:
    assert [line[3] for line in place.lines("half", "--limit=2")] == ["version observed", "live moved"]
    assert [line[2:4] for line in place.lines("--actor", "alice", "--from", place.added)] == [
        ["model:half", "model added"],
        ["label:half/stable", "label set"],
    ]
    assert [line[3] for line in place.lines("--limit", "1", "--until", moments.describe(place.served))] == [
        "live moved"
    ]
    (event,) = place.json("label:half/stable", "--action=label set")["history"]
    assert (event["actor"], event["reason"], event["after"]) == ("alice", "a better model", {"version": 2})


def test_what_was_live_at_a_time(place: Place) -> None:
    time = moments.describe(place.served)
    assert place.lines("at", time) == [
        [
            "model:half",
            "half version 2",
            output_moment(place.served),
            "bridge (poller)",
            "version observed",
            "/models/half/2",
            "f2",
        ]
    ]
    first = place.run("at", time, "half").stdout.splitlines()
    assert first[:4] == [
        "subject: model:half",
        f"live: half version 2, since {output_moment(place.served)}, by bridge (poller), version observed",
        "files: /models/half/2",
        "fingerprint: f2",
    ]
    assert first[5].startswith('wanted: {"base_path":"/models/half"')
    assert first[5].endswith("by alice (CLI), model added: a better model")
    assert place.json("at", time, "half")["state"]["subjects"][0]["live"]["state"]["version"] == 2


def test_what_changed_between_two_times(place: Place) -> None:
    before, after = moments.describe(place.served - SECOND), moments.describe(place.served)
    assert [line[:5] for line in place.lines("diff", before, after, "half") if line[1] == "live"] == [
        ["model:half", "live", "fingerprint", '"f1"', '"f2"'],
        ["model:half", "live", "path", '"/models/half/1"', '"/models/half/2"'],
        ["model:half", "live", "version", "1", "2"],
        ["model:half", "live", "versions", "[1]", "[2]"],
    ]
    assert place.json("diff", before, before)["diff"]["subjects"] == []


def test_from_when_to_when(place: Place) -> None:
    one, two = place.lines("live", "half")
    assert (one[1], two[:2]) == (two[0], [output_moment(place.served), ""])
    assert [line[2] for line in (one, two)] == ["half version 1", "half version 2"]
    assert len(place.lines("live", "half", "--version=1")) == 1
    assert place.json("live", "label:half/stable")["live"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nobody",), "The history knows nothing called 'nobody'."),
        (("at", "noon"), "'noon' is not a time"),
        (("at", "2999-01-01"), "is in the future"),
        (("at", "1999-01-01"), "The history begins at 2023-11-14T22:13:20Z; nothing is known of 1999-01-01T00:00:00Z."),
        (("at", "#999"), "There is no event #999."),
        (("live", "server"), "server is not what requests name; name a model, a label or a vmodel."),
        (("diff", "2000-01-01", "noon"), "'noon' is not a time"),
    ],
    ids=str,
)
def test_one_sentence_for_what_cannot_be_answered(place: Place, arguments: tuple[str, ...], sentence: str) -> None:
    stderr = place.run(*arguments, code=1).stderr
    assert sentence in stderr
    assert len(stderr.splitlines()) == 1


def test_no_database(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["history", f"--state_dir={tmp_path}"])
    assert result.exit_code == 1
    assert "There is no database" in result.stderr


def output_moment(at: int) -> str:
    return f"{moments.describe(at).removesuffix('Z')}.000Z"
