from __future__ import annotations

import pytest

from bridge.codec.predict import ModelSpec
from bridge.errors import BridgeError
from bridge.tfserving.rest_urls import RestUrl, VersionOverflow, is_api, parse_url

ESCAPED = "modelname%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D"
PLAIN = "modelname!#$%&'()*+,/:;=?@[]"


@pytest.mark.parametrize(
    ("method", "target", "action", "spec"),
    [
        ("POST", "/v1/models/m:predict", "predict", ModelSpec("m")),
        ("POST", "/V1/Models/M:predict", "predict", ModelSpec("M")),
        ("POST", "/v1/models/m/versions/0012:classify", "classify", ModelSpec("m", version=12)),
        ("POST", "/v1/models/m/versions/0:regress", "regress", ModelSpec("m", version=0)),
        ("POST", f"/v1/models/m/versions/{2**63 - 1}:predict", "predict", ModelSpec("m", version=2**63 - 1)),
        ("POST", "/v1/models/m/labels/a.b-c:predict", "predict", ModelSpec("m", label="a.b-c")),
        ("POST", f"/v1/models/{ESCAPED}:predict", "predict", ModelSpec(PLAIN)),
        ("POST", f"/v1/models/m/labels/{ESCAPED}:predict", "predict", ModelSpec("m", label=PLAIN)),
        ("POST", "/v1/models/a+b%20c%zz:predict", "predict", ModelSpec("a+b c%zz")),
        ("GET", "/v1/models/m", "status", ModelSpec("m")),
        ("GET", "/v1/models/m?x=1", "status", ModelSpec("m?x=1")),
        ("GET", "/v1/models/m/versions/7", "status", ModelSpec("m", version=7)),
        ("GET", "/v1/models/m/labels/l", "status", ModelSpec("m", label="l")),
        ("GET", "/v1/models/m/metadata", "metadata", ModelSpec("m")),
        ("GET", "/v1/models/m/METADATA", "status", ModelSpec("m")),
        ("GET", "/v1/models/m/versions/7/metadata", "metadata", ModelSpec("m", version=7)),
        ("GET", f"/v1/models/{ESCAPED}/labels/l/metadata", "metadata", ModelSpec(PLAIN, label="l")),
        ("GET", "/v1/models/metadata", "status", ModelSpec("metadata")),
        ("GET", "/v1/models/%C3%BC", "status", ModelSpec("ü")),
        ("GET", "/v1/models/%FF", "status", ModelSpec("\udcff")),
    ],
)
def test_parses(method: str, target: str, action: str, spec: ModelSpec) -> None:
    assert parse_url(method, target) == RestUrl(action, spec)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/foo"),
        ("POST", "/v1/foo"),
        ("GET", "/v1/"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/models/m/"),
        ("GET", "/v1/models/debug/model_name"),
        ("POST", "/v1/models"),
        ("POST", "/v1/models/m"),
        ("GET", "/v1/models/m:predict"),
        ("GET", "/v1/models/m/version/50:predict"),
        ("POST", "/v1/models/m/version/50:predict"),
        ("POST", "/v1/models/m/versions/HELLO:regress"),
        ("POST", "/v1/models/m/versions/canary:predict"),
        ("POST", "/v1/models/m/versions/-1:predict"),
        ("POST", "/v1/models/m/versions/١:predict"),
        ("POST", "/v1/models/m/metadata"),
        ("POST", "/v1/models/m/label/some_label:regress"),
        ("POST", "/v1/models/m/versions/50/labels/some_label:regress"),
        ("POST", "/v1/models/m:PREDICT"),
        ("POST", "/v1/models/m:predict?x=1"),
        ("POST", "/v1/models/m:predict/"),
        ("POST", "/v1/models/a/b:predict"),
        ("PUT", "/v1/models/m:predict"),
        ("HEAD", "/v1/models/m"),
    ],
)
def test_refuses(method: str, target: str) -> None:
    with pytest.raises(BridgeError) as caught:
        parse_url(method, target)
    assert caught.value.message == f"Malformed request: {method} {target}"
    assert caught.value.http_status == 400


@pytest.mark.parametrize("target", ["/v1/models", "/v1/models/versions/3", "/v1/models/labels/x"])
def test_a_name_is_needed(target: str) -> None:
    with pytest.raises(BridgeError, match=r"^Missing model name in request\.$"):
        parse_url("GET", target)


@pytest.mark.parametrize("version", [str(2**63), "18446744073709551615", "9" * 5000])
@pytest.mark.parametrize(("method", "suffix"), [("POST", ":regress"), ("GET", ""), ("GET", "/metadata")])
def test_a_version_past_int64(method: str, version: str, suffix: str) -> None:
    with pytest.raises(VersionOverflow, match=f"^Failed to convert version: {version} to numeric"):
        parse_url(method, f"/v1/models/m/versions/{version}{suffix}")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/", True),
        ("/V1/x", True),
        ("/v1/models?a", True),
        ("/v1", False),
        ("/", False),
        ("/v2/a", False),
        ("/statuspage", False),
    ],
)
def test_what_belongs_to_the_api(target: str, expected: bool) -> None:
    assert is_api(target) is expected
