"""Whole servers that serve from object stores, under clients that never pause.

The stores are servers on loopback that stand in for Amazon S3 and Google Cloud Storage (moto and
gcp-storage-emulator); s3fs and gcsfs in front of them are the real ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Start
from tests.support.bridge_server import BridgeServer
from tests.support.object_stores import Bucket, gcs_server, s3_server
from tests.support.official_client import OfficialClient, export

pytestmark = pytest.mark.integration

SERVERS = {"s3": s3_server, "gs": gcs_server}


@pytest.fixture(params=SERVERS)
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    before = dict(os.environ)
    with SERVERS[request.param]() as environment:
        os.environ.update(environment)
        yield Bucket(f"{request.param}://models")
        os.environ.clear()
        os.environ.update(before)


def sources(server: BridgeServer) -> list[str]:
    """Version directories that lie in the server's cache."""
    return sorted(path.name for path in (server.state_dir / "sources").glob("*/*") if path.is_dir())


def test_versions_come_and_go(bucket: Bucket, start: Start, tmp_path: Path, client: OfficialClient) -> None:
    for version in (1, 2):
        export(tmp_path / "source", version)
    bucket.upload(tmp_path / "source" / "1", "numbered/1")
    base_path = f"{bucket.url}/numbered"
    server = start(
        "--model_name=numbered",
        f"--model_base_path={base_path}",
        "--object_store_poll_wait_seconds=1",
        "--load_retry_interval_micros=100000",
    )
    with client.loop(server.grpc, name="numbered") as loop:
        assert sources(server) == ["1"]
        bucket.upload(tmp_path / "source" / "2" / "variables", "numbered/2/variables")
        server.wait_for_log(f"{base_path}/2 is not offered: it has no saved_model.pb.")
        bucket.put("numbered/2/saved_model.pb", (tmp_path / "source" / "2" / "saved_model.pb").read_bytes())
        loop.wait_for_version(2)
        server.wait_for_states("numbered", {2: "AVAILABLE", 1: "END"})
        bucket.delete("numbered/2")
        loop.wait_for_version(1)
        server.wait_for_states("numbered", {2: "END", 1: "AVAILABLE"})
        bucket.delete("numbered/1")
        server.wait_for_log(f"Could not find base path {base_path} for servable numbered: No such file or directory")
        loop.wait_for_answers(20)
        assert sources(server) == ["1"]
    assert loop.clean, loop.tally
    assert loop.tally["versions"] == [1, 2, 1]
    assert len(server.log_lines("WARNING", base_path)) == 2, server.tail()


def test_a_store_that_goes_away(
    start: Start, tmp_path: Path, client: OfficialClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What serves goes on, over a restart too, and one sentence says what is wrong."""
    export(tmp_path / "source", 1)
    base_path = "s3://away/numbered"
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        Bucket("s3://away").upload(tmp_path / "source", "numbered")
        server = start("--model_name=numbered", f"--model_base_path={base_path}", "--object_store_poll_wait_seconds=1")
    with client.loop(server.grpc, name="numbered") as loop:
        [line] = server.wait_for_log(f"Could not read base path {base_path} of numbered: ", seconds=60)
        loop.wait_for_answers(20)
    assert "EndpointConnectionError" in line
    assert loop.clean, loop.tally
    assert server.terminate() == 0
    server.start()
    assert client.predict(server.grpc, [1.0], name="numbered")["spec"]["version"] == 1
    assert len(server.log_lines("Could not read base path")) == 2, "one of each life"


def test_a_package_that_is_not_installed(start: Start, tmp_path: Path, client: OfficialClient) -> None:
    export(tmp_path / "numbered", 1)
    config = tmp_path / "models.config"
    config.write_text(
        "model_config_list {"
        f' config {{ name: "numbered" base_path: "{tmp_path}/numbered" model_platform: "tensorflow" }}'
        ' config { name: "azure" base_path: "abfs://bucket/m" model_platform: "tensorflow" }'
        ' config { name: "nobucket" base_path: "s3:///m" model_platform: "tensorflow" } }'
    )
    server = start(f"--model_config_file={config}")
    server.wait_for_log("for servable azure: nothing here can read abfs:// paths: install the package adlfs")
    server.wait_for_log("for servable nobucket: s3:///m names no bucket")
    assert server.states("numbered") == {1: "AVAILABLE"}
