"""The console in a real browser, on a real server that asks for tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.support.browser import chromium
from tests.support.console_scene import CALLER, EXPIRED, MANAGER, VIEWER, Scene

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

HOSTILE = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&"
MODEL = "/models?name=recommender"
PAGES = (
    "/",
    MODEL,
    f"/models?name={quote(HOSTILE)}",
    "/models?name=fraud-score",
    "/vmodels?id=ranking",
    "/history?actor=anna",
    "/history?subject=nothing",
    "/at?time=%2312",
    "/at?time=%2312&subject=recommender",
    "/rollback",
    "/rollback?subject=recommender",
    "/rollback?subject=fraud-score&to=2001-01-01",
)
SERIOUS = ("serious", "critical")


@dataclass
class Seen:
    """What a browser asked for and complained of."""

    addresses: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Scene(tmp_path_factory.mktemp("console"), HOSTILE) as scene:
        scene.label(HOSTILE, 2, HOSTILE)
        yield scene


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen()


@pytest.fixture(scope="module")
def session(scene: Scene, browser: Browser, seen: Seen) -> Iterator[BrowserContext]:
    """A browser in which anna, who may manage, is logged in."""
    context = open_context(browser, scene, seen)
    page = context.new_page()
    page.goto("/")
    log_in(page, MANAGER)
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(session: BrowserContext) -> Iterator[Page]:
    page = session.new_page()
    yield page
    page.close()


def open_context(browser: Browser, scene: Scene, seen: Seen, **options: object) -> BrowserContext:
    context: BrowserContext = browser.new_context(base_url=scene.address, **options)  # type: ignore[arg-type]
    context.on("request", lambda request: seen.addresses.append(request.url))
    context.on("console", lambda message: seen.complaints.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: seen.complaints.append(str(error.error)))
    context.on("dialog", lambda dialog: seen.complaints.append(dialog.message))
    return context


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Log in").click()


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("no-such-token", "The bearer token is not one that this server knows."),
        (EXPIRED, "The token of 'old' expired at 2020-01-01T00:00:00Z."),
        (CALLER, "'app' does not have the scope read, which POST /login needs."),
        ("  ", "Enter a token."),
    ],
    ids=["wrong", "expired", "without the scope", "empty"],
)
def test_a_token_that_does_not_do(scene: Scene, browser: Browser, token: str, sentence: str) -> None:
    context = open_context(browser, scene, Seen())
    page = context.new_page()
    page.goto(MODEL)
    expect(page).to_have_url(re.compile(r"/login\?next=%2Fmodels%3Fname%3Drecommender$"))
    log_in(page, token)
    expect(page.get_by_role("alert")).to_have_text(sentence)
    expect(page.get_by_label("Access token")).to_be_visible()
    assert not context.cookies()
    page.goto("/history")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    context.close()


def test_login_leads_to_the_page_that_was_asked_for_and_ends(scene: Scene, browser: Browser, seen: Seen) -> None:
    context = open_context(browser, scene, seen)
    page = context.new_page()
    page.goto(MODEL)
    log_in(page, VIEWER)
    expect(page).to_have_url(scene.address + MODEL)
    expect(page.get_by_text("Signed in as ben")).to_be_visible()
    [cookie] = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert VIEWER not in cookie["value"]
    page.goto("/rollback?subject=label:recommender/canary")
    expect(page.get_by_text("ben may look, but not roll back: that needs the scope manage.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Roll back"))).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert not context.cookies()
    context.close()


def test_the_overview_tells_what_serves(page: Page) -> None:
    page.goto("/")
    recommender = row(page, "recommender")
    expect(recommender).to_contain_text("latest 2 versions")
    expect(recommender).to_contain_text("stable → 2")
    expect(row(page, "fraud-score")).to_contain_text("Version 2: Could not find meta graph def")
    expect(row(page, "ranking")).to_contain_text("ranking-b")
    expect(row(page, "embedded")).to_contain_text(re.compile(r"of 4\.0 GiB \(\d+ %\)"))
    expect(page.get_by_text("Ready", exact=True)).to_be_visible()


def test_a_model_has_a_timeline_that_reads_as_a_table(page: Page) -> None:
    page.goto(MODEL)
    expect(page.get_by_role("img", name=re.compile("^Timeline from"))).to_be_visible()
    lanes = page.locator(".lane-name").all_inner_texts()
    assert lanes[:1] == ["no version"]
    assert {"label canary", "label stable", "version 1", "version 2", "version 3"} <= set(lanes)
    table = page.get_by_role("group", name="What was live when, as a table")
    stable = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="label stable"))
    expect(stable).to_have_count(2)
    expect(stable.nth(0)).to_contain_text("no complaints for a week")
    page.goto("/models?name=fraud-score")
    expect(page.get_by_role("region", name="Failures")).to_contain_text("Could not find meta graph def")


def test_the_history_is_filtered_and_shows_differences(page: Page) -> None:
    page.goto("/history")
    page.get_by_label("Subject").fill("label:recommender/stable")
    page.get_by_label("Action").fill("label set")
    page.get_by_label("By", exact=True).fill("anna")
    page.get_by_role("button", name="Filter").click()
    events = page.locator(".events > li")
    expect(events).to_have_count(2)
    expect(events.nth(0)).to_contain_text("label set label:recommender/stable: 1 → 2")
    expect(events.nth(0)).to_contain_text("no complaints for a week")
    changed = events.nth(0).get_by_role("row").filter(has=page.get_by_role("rowheader", name="version"))
    expect(changed.locator("del")).to_have_text("1")
    expect(changed.locator("ins")).to_have_text("2")
    page.get_by_label("From").fill("yesterday")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("alert")).to_contain_text("'yesterday' is not a time")


def test_a_time_tells_what_was_live_and_two_what_differs(page: Page) -> None:
    page.goto("/history?subject=label:recommender/stable&action=label%20set")
    second, first = (item.get_attribute("datetime") for item in page.locator(".events time").all())
    page.goto("/at")
    page.get_by_label("Time, or #event").fill(str(first))
    page.get_by_role("button", name="Show").click()
    served = page.get_by_role("region", name=re.compile("^Live at"))
    expect(served.get_by_role("row").filter(has_text="model:recommender")).to_contain_text("/models/recommender/")
    page.get_by_label("Compare with").fill(str(second))
    page.get_by_label("Subject").fill("label:recommender/stable")
    page.get_by_role("button", name="Show").click()
    differs = page.get_by_role("group", name="What differs of label:recommender/stable, wanted")
    expect(differs.locator("del")).to_have_text("1")
    expect(differs.locator("ins")).to_have_text("2")


def test_news_come_by_themselves_and_lose_nothing(scene: Scene, page: Page) -> None:
    page.goto(MODEL)
    expect(page.locator("#live-state")).to_have_text("Live")
    label = page.get_by_role("link", name="canary", exact=True)
    label.focus()
    scene.label("canary", 2, "an idea")
    expect(page.locator("#live-news")).to_contain_text("label:recommender/canary, by anna")
    canary = page.get_by_role("region", name="Labels").get_by_role("row").filter(has_text="canary")
    expect(canary.get_by_role("cell").first).to_have_text("2")
    expect(label).to_be_focused()
    page.context.set_offline(True)
    scene.label("canary", 3, "back")
    page.context.set_offline(False)
    expect(canary.get_by_role("cell").first).to_have_text("3", timeout=15_000)


def test_a_rollback_is_shown_then_confirmed_then_lifted(scene: Scene, page: Page) -> None:
    page.goto(MODEL)
    page.get_by_role("link", name="Roll back…", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^model:recommender as after #"))).to_be_visible()
    versions = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="versions"))
    expect(versions.locator("del")).to_have_text("[2,3]")
    expect(page.get_by_role("group", name="Files that the rollback needs")).to_contain_text("unchanged")
    page.get_by_label("Reason, for the history").fill("3 answers nonsense")
    page.get_by_role("button", name="Roll back model:recommender").click()
    done = page.get_by_role("status").filter(has_text="Rolled back")
    expect(done).to_contain_text("3 answers nonsense")
    expect(done).to_contain_text("by anna")
    states = scene.server.states("recommender")
    assert (states[2], states.get(3)) != ("AVAILABLE", "AVAILABLE")
    page.goto(MODEL)
    expect(page.get_by_text("A rollback holds this model at 2, whatever its policy says.")).to_be_visible()
    page.get_by_role("button", name="Let it follow its policy again").click()
    expect(page).to_have_url(scene.address + MODEL)
    expect(page.locator("dl")).to_contain_text("3, 2", timeout=20_000)
    expect(page.get_by_text("A rollback holds this model")).to_have_count(0)


def test_what_cannot_be_rolled_back_says_why(page: Page) -> None:
    page.goto("/rollback?subject=model:recommender&to=2001-01-01")
    expect(page.get_by_role("alert")).to_contain_text("The history begins at")
    page.goto("/rollback?subject=never-heard-of")
    expect(page.get_by_role("alert")).to_have_text("The history knows nothing called 'never-heard-of'.")


def test_pages_of_other_sites_change_nothing(scene: Scene, page: Page) -> None:
    before = scene.change("GET", "/api/v1/history?limit=1")["history"][0]["seq"]
    page.route(
        "http://evil.test/", lambda route: route.fulfill(body=_TRAP.format(scene.address), content_type="text/html")
    )
    page.goto("http://evil.test/")
    page.get_by_role("button").click()
    expect(page.locator("body")).to_contain_text("so it changes nothing")
    assert scene.change("GET", "/api/v1/history?limit=1")["history"][0]["seq"] == before


_TRAP = """<form method="post" action="{}/rollback">
<input name="subject" value="model:recommender"><input name="to" value="#1"><button>Win</button></form>"""


def test_no_page_has_a_serious_fault(session: BrowserContext) -> None:
    page = session.new_page()
    faults = []
    for address in PAGES:
        page.goto(address)
        for item in page.locator("details").all():
            item.evaluate("one => one.open = true")
        faults += [(address, *fault) for fault in serious_faults(page)]
    page.close()
    assert faults == []


def test_the_login_has_no_serious_fault(scene: Scene, browser: Browser) -> None:
    context = open_context(browser, scene, Seen())
    page = context.new_page()
    page.goto("/")
    assert serious_faults(page) == []
    log_in(page, "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    assert serious_faults(page) == []
    context.close()


def serious_faults(page: Page) -> list[tuple[str, str, str]]:
    """What axe-core finds in light, and in dark, where the same elements have other colours."""
    page.evaluate(Axe().axe_script)
    found = []
    for scheme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast", "link-in-text-block"]})):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        result = page.evaluate("options => axe.run(document, options)", {"resultTypes": ["violations"], **options})
        found += [(scheme, item) for item in result["violations"] if item["impact"] in SERIOUS]
    return [(scheme, item["id"], item["nodes"][0]["html"][:200]) for scheme, item in found]


def test_the_keyboard_comes_to_the_content_first(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_pages_read_without_scripts_on_a_narrow_screen(session: BrowserContext, browser: Browser, scene: Scene) -> None:
    context = open_context(
        browser,
        scene,
        Seen(),
        java_script_enabled=False,
        viewport={"width": 320, "height": 640},
        storage_state=session.storage_state(),
    )
    page = context.new_page()
    for address in PAGES:
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        box = page.locator("body").bounding_box()
        assert box is not None
        assert box["width"] <= 320
    context.close()


def test_names_do_nothing_and_no_request_leaves_the_machine(scene: Scene, page: Page, seen: Seen) -> None:
    """Last, since it judges every page that was opened before."""
    for address in PAGES:
        page.goto(address)
        assert page.evaluate("window.pwned") is None
    hosts = {urlsplit(address).netloc for address in seen.addresses if address != "http://evil.test/"}
    assert hosts == {scene.server.admin}
    foreign = [
        text for text in seen.complaints if "Failed to load resource" not in text and "offline" not in text.lower()
    ]
    assert foreign == []
