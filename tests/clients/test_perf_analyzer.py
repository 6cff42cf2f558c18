"""perf_analyzer in its TensorFlow Serving mode, and as it asks a Triton."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.clients import perf_analyzer
from tests.clients.builds import Unavailable
from tests.clients.conftest import LABELS, Served
from tests.support.official_client import OfficialClient

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

REQUESTS = 200
Analyze = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def analyze(served: Served) -> Analyze:
    try:
        command, environment = perf_analyzer.command()
    except Unavailable as missing:
        pytest.skip(str(missing))
    tfserving = ("--service-kind", "tfserving", "-i", "grpc", "-u", served.server.grpc)

    def analyze(*arguments: str, service: tuple[str, ...] = tfserving) -> subprocess.CompletedProcess[str]:
        asked = [*command, "--request-count", str(REQUESTS), *service, *arguments]
        return subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=120)

    return analyze


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "numbered", "--shape", "x:1"),
        ("-m", "numbered", "--shape", "x:3,4", "--concurrency-range", "4", "--grpc-compression-algorithm", "gzip"),
        ("-m", "numbered", "--model-signature-name", "regress_x2_to_y3", "--shape", "inputs:1"),
        ("-m", "strings", "--shape", "words:8", "--string-length", "20"),
    ],
)
def test_it_measures(analyze: Analyze, arguments: tuple[str, ...]) -> None:
    done = analyze(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Service Kind: TENSORFLOW_SERVING" in done.stdout
    assert f"Request count: {REQUESTS}" in done.stdout


def test_a_version_that_it_asks_for_is_a_label(served: Served, analyze: Analyze) -> None:
    """It sends `-x` as version_label, which TF Serving refuses too, as long as no label has that name."""
    arguments = ("-m", "numbered", "-x", "123", "--shape", "x:1")
    refused = analyze(*arguments)
    assert refused.returncode != 0
    assert "Unrecognized servable version label: 123" in refused.stderr
    with OfficialClient() as client:
        client.ask(served.server.grpc, "reload", config=served.config({**LABELS, "123": 123}))
        measured = analyze(*arguments)
        client.ask(served.server.grpc, "reload", config=served.config(LABELS))
    assert measured.returncode == 0, measured.stdout + measured.stderr


@pytest.mark.parametrize(
    ("transport", "arguments"),
    [
        ("grpc", ("-m", "numbered", "--shape", "x:3,4", "--concurrency-range", "4")),
        ("grpc", ("-m", "numbered", "-x", "1", "--shape", "x:1", "--streaming")),
        ("grpc", ("-m", "strings", "--shape", "words:8", "--string-length", "20")),
        ("http", ("-m", "numbered", "--shape", "x:3,4", "--concurrency-range", "4")),
        (
            "http",
            ("-m", "numbered", "--shape", "x:1", "--input-tensor-format", "json"),
        ),  # JSON of one element is all it can
        ("http", ("-m", "strings", "--shape", "words:8", "--string-length", "20")),
    ],
)
def test_it_takes_the_bridge_for_a_triton(
    served: Served, analyze: Analyze, transport: str, arguments: tuple[str, ...]
) -> None:
    url = served.server.grpc if transport == "grpc" else served.server.rest
    done = analyze(*arguments, service=("-i", transport, "-u", url))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Service Kind: TRITON" in done.stdout
    assert f"Request count: {REQUESTS}" in done.stdout
