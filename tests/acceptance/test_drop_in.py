"""tensorflow_model_server on a real Triton: when it opens its ports, what it says, how it ends."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import certificates, model_server, savedmodels
from tests.support.bridge_server import free_ports
from tests.support.certificates import Authority
from tests.support.model_server import ModelServer
from tests.support.official_client import OfficialClient
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
X, Y = [1.0, 2.0, 5.0], [2.5, 3.0, 4.5]


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base path of half_plus_two in version 1."""
    base = tmp_path_factory.mktemp("models") / "half"
    savedmodels.half_plus_two(base, 1)
    return base


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def predict_rest(address: str, name: str = "default", context: ssl.SSLContext | None = None) -> Any:
    scheme = "https" if context else "http"
    body = json.dumps({"instances": X}).encode()
    url = f"{scheme}://{address}/v1/models/{name}:predict"
    with urllib.request.urlopen(url, body, timeout=30, context=context) as response:
        return json.load(response)["predictions"]


def values(answer: dict[str, Any]) -> Any:
    return answer["outputs"]["y"]["values"] if "outputs" in answer else answer


def test_a_start_with_every_address(tmp_path: Path, half: Path, client: OfficialClient) -> None:
    """Ready by the lines that scripts wait for, answers on TCP, on the Unix socket and by REST; SIGTERM is clean."""
    path = tmp_path / "server.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with ModelServer(tmp_path, f"--model_base_path={half}", f"--grpc_socket_path={path}") as server:
        wait_for(lambda: "Entering the event loop ..." in server.log.read_text(), 5, "the last line of the start")
        lines = [line.split(": ", 1)[1] for line in server.log.read_text().splitlines() if " ..." in line]
        assert lines == [
            f"Running gRPC ModelServer at 0.0.0.0:{server.ports['port']} ...",
            f"Running gRPC ModelServer at UNIX socket {path} ...",
            f"Exporting HTTP/REST API at:localhost:{server.ports['rest_api_port']} ...",
            "[evhttp_server.cc : 245] NET_LOG: Entering the event loop ...",
        ]
        assert values(client.predict(server.grpc, X, name="default")) == Y
        assert values(client.predict(f"unix:{path}", X, name="default")) == Y
        assert predict_rest(server.rest) == Y
        assert server.terminate() == 0
        assert server.output.read_text() == ""
        assert server.processes() == []
        assert list((tmp_path / "tmp").iterdir()) == []


def test_a_later_server_steals_the_socket(tmp_path: Path, half: Path, client: OfficialClient) -> None:
    path = tmp_path / "server.sock"
    flags = (f"--model_base_path={half}", f"--grpc_socket_path={path}")
    with ModelServer(tmp_path / "first", *flags), ModelServer(tmp_path / "second", *flags, "--model_name=second"):
        assert values(client.predict(f"unix:{path}", X, name="second")) == Y


def test_a_model_that_ends_in_error_ends_the_start(tmp_path: Path, half: Path) -> None:
    base = tmp_path / "broken"
    shutil.copytree(half / "1", base / "3")
    (base / "3" / "saved_model.pb").write_bytes((half / "1" / "saved_model.pb").read_bytes())
    flags = (f"--model_base_path={base}", "--model_name=broken", "--saved_model_tags=none", "--max_num_load_retries=0")
    ports = free_ports(2)
    done = model_server.run(tmp_path, f"--port={ports[0]}", f"--rest_api_port={ports[1]}", *flags)
    assert done.returncode == 255
    assert done.stdout == (
        "Failed to start server. Error: UNKNOWN: 1 servable(s) did not become available: {{{name: broken version: 3} "
        "due to error: NOT_FOUND: Could not find meta graph def matching supplied tags: { none }. To inspect available "
        "tag-sets in the SavedModel, please use the SavedModel CLI: `saved_model_cli`}, }\n"
    )
    assert list((tmp_path / "tmp").iterdir()) == []


def test_ports_stay_closed_while_a_model_is_tried_again(tmp_path: Path, half: Path) -> None:
    server = ModelServer(tmp_path, f"--model_base_path={half}", "--saved_model_tags=none").launch()
    try:
        wait_for(lambda: "(try 1)" in server.log.read_text(), 30, "the first try")
        for port in server.ports.values():
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0
        began = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - began < 10
    finally:
        server.close()


def test_a_missing_base_path_holds_nothing_up(tmp_path: Path, half: Path, client: OfficialClient) -> None:
    config = tmp_path / "models.config"
    entry = 'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" }}'
    entries = entry.format(name="half", path=half) + entry.format(name="none", path=tmp_path / "none")
    config.write_text(f"model_config_list {{ {entries} }}")
    # Both forms at once, as TF Serving's image gives them.
    flags = (f"--model_config_file={config}", "--model_name=model", "--model_base_path=/models/model")
    with ModelServer(tmp_path, *flags) as server:
        assert values(client.predict(server.grpc, X, name="half")) == Y
        assert client.predict(server.grpc, X, name="none")["code"] == "NOT_FOUND"
        assert client.predict(server.grpc, X, name="model")["code"] == "NOT_FOUND"


def test_ports_that_are_taken(tmp_path: Path, half: Path, client: OfficialClient) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        flags = (f"--model_base_path={half}",)
        done = model_server.run(tmp_path / "grpc", f"--port={port}", *flags)
        assert (done.returncode, done.stdout) == (
            255,
            "Failed to start server. Error: INVALID_ARGUMENT: Failed to BuildAndStart gRPC server\n",
        )
        with ModelServer(tmp_path / "rest", *flags, f"--rest_api_port={port}") as server:
            assert f"Failed to start HTTP Server at localhost:{port}" in server.log.read_text()
            assert values(client.predict(server.grpc, X, name="default")) == Y


def test_alts_outside_of_google_cloud_ends_the_start(tmp_path: Path, half: Path) -> None:
    port = free_ports(1)[0]
    done = model_server.run(tmp_path, f"--port={port}", f"--model_base_path={half}", "--use_alts_credentials")
    assert (done.returncode, done.stdout) == (
        255,
        "Failed to start server. Error: INVALID_ARGUMENT: Failed to BuildAndStart gRPC server\n",
    )


def test_one_port_for_both_serves_grpc(tmp_path: Path, half: Path, client: OfficialClient) -> None:
    server = ModelServer(tmp_path, f"--model_base_path={half}")
    server.flags.append(f"--rest_api_port={server.ports['port']}")
    with server:
        assert "REST is not served" in server.log.read_text()
        assert values(client.predict(server.grpc, X, name="default")) == Y


def test_entry_point_script_starts_a_server(tmp_path: Path, half: Path, client: OfficialClient) -> None:
    server = ModelServer(tmp_path)
    bin_path = model_server.command(tmp_path / "bin").parent
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PATH": f"{bin_path}:{os.environ['PATH']}",
        "MODEL_NAME": half.name,
        "MODEL_BASE_PATH": str(half.parent),
    }
    log = (tmp_path / "log").open("wb")
    script = ROOT / "deploy" / "bridge" / "tf_serving_entrypoint.sh"
    with log, subprocess.Popen([script, *server.flags], env=environment, stderr=log) as process:
        try:
            wait_for(lambda: b"Running gRPC" in (tmp_path / "log").read_bytes(), 60, "the server is ready")
            assert values(client.predict(server.grpc, X, name="half")) == Y
            assert predict_rest(server.rest, "half") == Y
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory, half: Path, authority: Authority) -> Iterator[ModelServer]:
    """A server that asks its clients for a certificate."""
    directory = tmp_path_factory.mktemp("mutual")
    identity = authority.issue()
    config = certificates.ssl_config(
        directory / "ssl", key=identity.key, chain=identity.chain, roots=authority.pem, verify=True
    )
    with ModelServer(directory, f"--model_base_path={half}", f"--ssl_config_file={config}") as server:
        yield server


def tls(authority: Authority, issuer: Authority | None = None) -> dict[str, str]:
    """What a client trusts, and the certificate of `issuer` that it shows."""
    parts = {"roots": authority.pem}
    if issuer is not None:
        identity = issuer.issue("client.test")
        parts |= {"key": identity.key, "chain": identity.chain}
    return {name: pem.decode() for name, pem in parts.items()}


def context(directory: Path, parts: dict[str, str]) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=parts["roots"])
    if "key" in parts:
        (directory / "client.pem").write_text(parts["key"] + parts["chain"])
        made.load_cert_chain(directory / "client.pem")
    return made


def test_mutual_tls_lets_the_right_client_in(
    tmp_path: Path, mutual: ModelServer, authority: Authority, client: OfficialClient
) -> None:
    right = tls(authority, authority)
    assert values(client.ask(mutual.grpc, "predict", **question(), tls=right)) == Y
    assert predict_rest(mutual.rest, context=context(tmp_path, right)) == Y


@pytest.mark.parametrize("case", ["none", "foreign certificate", "foreign roots", "clear text"])
def test_mutual_tls_keeps_others_out(
    tmp_path: Path, mutual: ModelServer, authority: Authority, client: OfficialClient, case: str
) -> None:
    foreign = Authority()
    parts = {
        "none": tls(authority),
        "foreign certificate": tls(authority, foreign),
        "foreign roots": tls(foreign, authority),
        "clear text": None,
    }[case]
    assert client.ask(mutual.grpc, "predict", **question(), tls=parts)["code"] == "UNAVAILABLE"
    # TLS 1.3 shows a refused client certificate only where the answer is read.
    with pytest.raises(OSError):
        predict_rest(mutual.rest, context=context(tmp_path, parts) if parts else None)


def test_tls_asks_no_certificate_without_client_verify(
    tmp_path: Path, half: Path, authority: Authority, client: OfficialClient
) -> None:
    identity = authority.issue()
    config = certificates.ssl_config(tmp_path / "ssl", key=identity.key, chain=identity.chain)
    path = tmp_path / "server.sock"
    flags = (f"--model_base_path={half}", f"--ssl_config_file={config}", f"--grpc_socket_path={path}")
    with ModelServer(tmp_path, *flags) as server:
        trusting = tls(authority)
        assert values(client.ask(server.grpc, "predict", **question(), tls=trusting)) == Y
        assert predict_rest(server.rest, context=context(tmp_path, trusting)) == Y
        assert client.predict(f"unix:{path}", X, name="default")["code"] == "UNAVAILABLE"


def test_expired_certificates_are_refused_at_the_start(tmp_path: Path, half: Path, authority: Authority) -> None:
    identity = authority.issue(days=-1)
    config = certificates.ssl_config(tmp_path / "ssl", key=identity.key, chain=identity.chain)
    done = model_server.run(tmp_path, f"--model_base_path={half}", f"--ssl_config_file={config}")
    assert done.returncode == 255
    start = f"Failed to start server. Error: INVALID_ARGUMENT: SSL configuration '{config}': server_cert '"
    assert done.stdout.startswith(start)
    assert " expired at " in done.stdout


def question() -> dict[str, Any]:
    return {"spec": {"name": "default"}, "inputs": {"x": {"dtype": "float32", "values": X}}}
