"""Which pages may change something."""

from __future__ import annotations

import pytest

from bridge.console import same_origin
from bridge.errors import BridgeError

HOST = "127.0.0.1:8502"
CASES = [
    ("no browser", {}, True),
    ("own page", {"origin": f"http://{HOST}"}, True),
    ("own page, said by the browser", {"sec-fetch-site": "same-origin", "origin": "https://proxy.example"}, True),
    ("address bar", {"sec-fetch-site": "none"}, True),
    ("other site", {"origin": "https://evil.example"}, False),
    ("other port", {"origin": "http://127.0.0.1:9999"}, False),
    ("nobody's page", {"origin": "null"}, False),
    ("other site, said by the browser", {"sec-fetch-site": "cross-site"}, False),
    ("other port, said by the browser", {"sec-fetch-site": "same-site", "origin": f"http://{HOST}"}, False),
    ("no origin at all", {"origin": ""}, False),
]


@pytest.mark.parametrize(("headers", "allowed"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_changes(method: str, headers: dict[str, str], allowed: bool) -> None:
    if allowed:
        same_origin.check(method, {"host": HOST, **headers})
        return
    with pytest.raises(BridgeError, match="another site") as caught:
        same_origin.check(method, {"host": HOST, **headers})
    assert caught.value.http_status == 403


def test_reading_is_everybodys() -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        same_origin.check(method, {"host": HOST, "origin": "https://evil.example", "sec-fetch-site": "cross-site"})


def test_without_a_host_nothing_is_the_own_page() -> None:
    with pytest.raises(BridgeError):
        same_origin.check("POST", {"origin": "null"})
