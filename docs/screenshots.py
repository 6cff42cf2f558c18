"""Takes the pictures of the console that docs/console.md shows: python -m docs.screenshots

They show a real bridge with real models, as if their directory were /srv.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.support.browser import chromium
from tests.support.console_scene import MANAGER, Scene

DOCS = Path(__file__).parent
SIZE = {"width": 1120, "height": 760}
PICTURES = (
    ("console-overview", "/", "light"),
    ("console-model", "/models?name=recommender", "light"),
    ("console-history", "/history?subject=label:recommender/stable", "light"),
    ("console-rollback", "/rollback?subject=model:recommender", "dark"),
)
"""Name, page and scheme of each."""
LIMIT = 150_000
"""Bytes of one picture."""
_MOVE = """directory => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(directory, "/srv");
}"""


def main() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="bridge-") as directory,
        Scene(Path(directory)) as scene,
        chromium() as browser,
    ):
        sizes = [_take(browser, scene, *picture) for picture in PICTURES]
    return 0 if max(sizes) <= LIMIT else 1


def _take(browser: Browser, scene: Scene, name: str, address: str, scheme: str) -> int:
    context = browser.new_context(base_url=scene.address, viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Access token").fill(MANAGER)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("Signed in").wait_for()
    page.evaluate(_MOVE, str(scene.models.parent))
    path = DOCS / f"{name}.png"
    page.screenshot(path=path)
    context.close()
    size = path.stat().st_size
    print(f"docs/{path.name}: {size} bytes{'' if size <= LIMIT else f', more than {LIMIT}'}", file=sys.stderr)
    return size


if __name__ == "__main__":
    sys.exit(main())
