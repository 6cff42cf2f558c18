"""The pages over HTTP: what they show, what they refuse, and that names stay names."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from bridge.console.pages import subjects, timeline
from bridge.console.pages.renderer import POLICY, STATIC, clock, duration, size, url
from bridge.registry.live import Move, ServedVersion
from bridge.registry.records import Actor
from bridge.serving.routes import VersionState
from tests.console.admin_server import TEST, AdminServer

HOSTILE = "<script>alert(1)</script>\"'&amp;"


@pytest.fixture
def told(server: AdminServer) -> AdminServer:
    """A history in which every text of a client is hostile."""
    anna = Actor(HOSTILE, "admin", HOSTILE, HOSTILE)
    server.add_model(HOSTILE, 1, 2)
    server.registry.set_label(HOSTILE, "stable<b>", 2, anna)
    subject = f"model:{HOSTILE}"
    server.registry.record_moves([Move(subject, ServedVersion(HOSTILE, 2, (2, 1)))], anna)
    server.registry.record_version(HOSTILE, 3, int(VersionState.END), 3, HOSTILE, path=HOSTILE, actor=anna)
    server.registry.record_problem(subject, HOSTILE, HOSTILE, anna)
    return server


class Elements(HTMLParser):
    """The names of all elements, and the attributes that could run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.dangerous: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.dangerous += [name for name, value in attrs if name.startswith("on") or name == "style"]
        self.dangerous += [str(value) for name, value in attrs if (value or "").startswith(("javascript:", "http"))]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", {}),
        ("/models", {"name": HOSTILE}),
        ("/models", {"name": HOSTILE, "window": "day"}),
        ("/history", {}),
        ("/history", {"subject": f"model:{HOSTILE}", "actor": HOSTILE, "action": "live moved"}),
        ("/history", {"subject": HOSTILE + "x"}),
        ("/history", {"from": HOSTILE}),
        ("/at", {"time": "#6"}),
        ("/at", {"time": "#6", "subject": HOSTILE}),
        ("/at", {"time": HOSTILE}),
        ("/rollback", {"subject": HOSTILE}),
        ("/rollback", {"subject": HOSTILE, "to": HOSTILE}),
        ("/models", {"name": HOSTILE, "window": HOSTILE}),
        ("/vmodels", {"id": HOSTILE}),
    ],
)
def test_hostile_names_are_text(told: AdminServer, path: str, query: dict[str, str]) -> None:
    reply = told.ask("GET", path, query)
    page = reply.body.decode()
    found = Elements(page)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["content-security-policy"] == POLICY
    assert found.names.count("script") == 1
    assert "b" not in found.names
    assert found.dangerous == []
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    ("path", "query", "status", "sentence"),
    [
        ("/models", {}, 400, "the query parameter name is missing"),
        ("/models", {"name": "no"}, 404, "The history knows no model &#39;no&#39;."),
        ("/models", {"name": "half", "windows": "day"}, 400, "has no query parameter &#39;windows&#39;"),
        ("/models", {"name": "half", "window": "year"}, 400, "window=year is none of hour, day, week, month, all"),
        ("/vmodels", {"id": "no"}, 404, "The history knows no vmodel &#39;no&#39;."),
        ("/history", {"until": "soon"}, 400, "&#39;soon&#39; is not a time"),
        ("/history", {"subject": "no"}, 404, "The history knows nothing called &#39;no&#39;."),
        ("/history", {"before": "x"}, 400, "before=x is not a number"),
        ("/at", {"time": "2999-01-01"}, 400, "is in the future"),
        ("/at", {"time": "1999-01-01"}, 400, "The history begins at"),
        ("/at", {"time": "#x"}, 400, "&#39;#x&#39; is not an event"),
        ("/rollback", {"subject": "half"}, 400, "so a server has to run."),
    ],
)
def test_bad_questions_get_one_sentence(
    server: AdminServer, path: str, query: dict[str, str], status: int, sentence: str
) -> None:
    server.add_model("half", 1)
    reply = server.ask("GET", path, query)
    page = reply.body.decode()
    assert (reply.status, page.count('class="alert"')) == (status, 1)
    assert sentence in page


def test_pages_of_the_history_follow_each_other_without_a_gap(server: AdminServer) -> None:
    for number in range(60):
        server.add_model(f"m{number}", 1)
    seen: list[int] = []
    address = "/history?subject=&from=&action="
    while address:
        page = server.ask("GET", address).body.decode()
        seen += [int(seq) for seq in re.findall(r'<li id="event-(\d+)"', page)]
        older = re.search(r'rel="next" href="([^"]+)"', page)
        address = older[1].replace("&amp;", "&") if older else ""
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(set(seen)) == len(server.registry.events(limit=1000))


@pytest.mark.parametrize("name", STATIC)
def test_files_of_pages_may_be_kept(server: AdminServer, name: str) -> None:
    reply = server.ask("GET", f"/static/{name}")
    assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, STATIC[name])
    assert "immutable" in reply.headers["cache-control"]
    assert b"http" not in reply.body.replace(b'xmlns="http://www.w3.org/2000/svg"', b"")


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"subject=m", "text/plain", "the body is not a form: text/plain"),
        (b"subject=m&surprise=1", "application/x-www-form-urlencoded", "the form has to have the fields"),
        (b"subject=m&subject=n", "application/x-www-form-urlencoded", "the form has to have the fields"),
        (b"subject=%ff", "application/x-www-form-urlencoded", "the form is not UTF-8"),
    ],
)
def test_bad_forms_change_nothing(server: AdminServer, body: bytes, kind: str, sentence: str) -> None:
    reply = server.ask("POST", "/rollback", body=body, headers={"content-type": kind})
    assert reply.status == 400
    assert sentence in reply.body.decode()


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0, "0 ms"), (900_000, "900 ms"), (61_000_000, "1 min 1 s"), (3_600_000_000, "1 h"), (90_061_000_000, "1 d 1 h")],
)
def test_durations(microseconds: int, text: str) -> None:
    assert duration(microseconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (363_000_000, "346 MiB"), (1 << 42, "4.0 TiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_times_and_addresses() -> None:
    assert clock(1_800_000_000_123_456) == "2027-01-15 08:00:00"
    assert url("/history", subject="a&b", until="", from_="x", before=None) == "/history?subject=a%26b&from=x"


def test_a_timeline_shows_the_latest_moves_of_a_long_history(
    server: AdminServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subjects, "MOVES_SHOWN", 3)
    server.add_model("half", 1)
    for version in range(1, 9):
        server.registry.record_moves([Move("model:half", ServedVersion("half", version, (version,)))], TEST)
    page = server.ask("GET", "/models", {"name": "half"}).body.decode()
    assert re.findall(r'class="lane-name">([^<]*)<', page) == ["no version", "version 8", "version 7", "version 6", ""]
    assert server.registry.live_intervals("model:half", latest=3) == server.registry.live_intervals("model:half")[-3:]


def test_a_version_that_stays_beside_a_newer_one_has_a_lane_of_its_own(server: AdminServer) -> None:
    server.add_model("half", 1)
    for versions in ((1,), (2, 1), (2,)):
        server.registry.record_moves([Move("model:half", ServedVersion("half", versions[0], versions))], TEST)
    moves = server.registry.live_moves("model:half")
    assert [move.state["versions"] for move in moves] == [[1], [2, 1], [2]]
    assert len(server.registry.live_intervals("model:half")) == 2
    [first] = timeline.by_version(moves)[1]
    assert (first.start, first.end) == (moves[0].start, moves[2].start)
