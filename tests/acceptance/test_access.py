"""A server that asks for tokens: official clients, curl, the command, and what the history tells of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from model_repo_sync.protos.mmesh import model_mesh_pb2 as mesh_pb
from tests.acceptance.conftest import Start
from tests.support import certificates, model_config
from tests.support.bridge_server import BridgeServer
from tests.support.certificates import Authority, Identity
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient, export
from tests.support.waiting import wait_for

pytestmark = pytest.mark.integration

BRIDGE = str(Path(sys.executable).with_name("bridge"))
UNAUTHENTICATED, PERMISSION_DENIED = "UNAUTHENTICATED", "PERMISSION_DENIED"
APP, OPS, OLD = "app-token", "ops-token", "old-token"
PREDICT = "tensorflow.serving.PredictionService/Predict"
RELOAD = "tensorflow.serving.ModelService/HandleReloadConfigRequest"

Json = dict[str, Any]


class Place(NamedTuple):
    """A server of `numbered` that asks for tokens on every port."""

    server: BridgeServer
    tokens: Path
    base_path: Path

    def allow(self, *identities: Json) -> None:
        """Put a new file in the place of the old one."""
        draft = self.tokens.with_suffix(".new")
        draft.write_text(json.dumps({"identities": identities}))
        draft.chmod(0o600)
        os.replace(draft, self.tokens)

    def command(self, *arguments: str, token: str = OPS, code: int = 0) -> str:
        """The standard output of a `bridge` command, the standard error where it fails."""
        file = self.tokens.with_name("command.token")
        file.write_text(f"{token}\n")
        command = [BRIDGE, *arguments, f"--state_dir={self.server.state_dir}"]
        environment = {**os.environ, "BRIDGE_ADMIN_TOKEN_FILE": str(file)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == code, result.stderr
        return result.stderr if code else result.stdout

    def events(self, action: str) -> list[Json]:
        found: list[Json] = json.loads(self.command("events", f"--action={action}", "--limit=1000", "--json"))["events"]
        return found


IDENTITIES: list[Json] = [
    {"name": "app", "token": APP, "scopes": ["inference"]},
    {"name": "ops", "token": OPS, "scopes": ["read", "manage"]},
    {"name": "old", "token": OLD, "scopes": ["inference"], "expires": "2020-01-01T00:00:00Z"},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("access")
    base_path = directory / "numbered"
    export(base_path, 1)
    tokens = directory / "tokens.json"
    server = BridgeServer(
        directory / "bridge",
        "--model_name=numbered",
        f"--model_base_path={base_path}",
        f"--access_token_file={tokens}",
        "--require_access=all",
    )
    place = Place(server, tokens, base_path)
    place.allow(*IDENTITIES)
    with server:
        yield place


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def predicted(client: OfficialClient, place: Place, token: str) -> str:
    """OK, or the code of the refusal."""
    inputs = {"x": {"dtype": "float32", "values": [1.0]}}
    answer = client.ask(place.server.grpc, "predict", spec={"name": "numbered"}, inputs=inputs, headers=bearer(token))
    return str(answer.get("code", "OK"))


@pytest.mark.parametrize(
    ("token", "code"),
    [(APP, "OK"), ("", UNAUTHENTICATED), ("wrong", UNAUTHENTICATED), (OLD, UNAUTHENTICATED), (OPS, PERMISSION_DENIED)],
)
def test_predict_by_the_official_client(place: Place, client: OfficialClient, token: str, code: str) -> None:
    assert predicted(client, place, token) == code


@pytest.mark.parametrize(
    ("token", "status", "text"),
    [
        (APP, 200, "predictions"),
        ("", 401, "needs a bearer token"),
        (OLD, 401, "The token of 'old' expired at 2020-01-01T00:00:00Z."),
        (OPS, 403, "'ops' does not have the scope inference"),
    ],
)
def test_predict_by_curl(place: Place, token: str, status: int, text: str) -> None:
    command = ["curl", "--silent", "--write-out", "\n%{http_code}", "--data", '{"instances": [1.0]}']
    command += [item for name, value in bearer(token).items() for item in ("--header", f"{name}: {value}")]
    command.append(f"http://{place.server.rest}/v1/models/numbered:predict")
    body, _, code = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.rpartition(
        "\n"
    )
    assert (int(code), text in body) == (status, True), body


def test_v2_streams_and_unary_calls(place: Place) -> None:
    with grpcclient.InferenceServerClient(place.server.grpc) as v2:
        assert v2.is_server_live()
        with pytest.raises(InferenceServerException, match="needs a bearer token"):
            v2.get_model_metadata("numbered")
        assert v2.get_model_metadata("numbered", headers=bearer(OPS)).name == "numbered"
    with grpc.insecure_channel(place.server.grpc) as channel:
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        with pytest.raises(grpc.RpcError) as caught:
            next(stream(iter([b""]), timeout=10))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]


def test_the_modelmesh_port(place: Place) -> None:
    with grpc.insecure_channel(place.server.modelmesh) as channel:
        register: Any = channel.unary_unary("/mmesh.ModelMesh/registerModel")
        request = mesh_pb.RegisterModelRequest(modelId="m", modelInfo={"type": "tensorflow"}).SerializeToString()
        for token, code in (("", UNAUTHENTICATED), (APP, PERMISSION_DENIED)):
            with pytest.raises(grpc.RpcError) as caught:
                register(request, timeout=10, metadata=[*bearer(token).items()])
            assert caught.value.code().name == code  # type: ignore[attr-defined]
        metadata = [*bearer(OPS).items(), ("x-audit-reason", "a try"), ("x-request-id", "mesh-1")]
        register(request, timeout=10, metadata=metadata)
    [event] = place.events("model registered")
    assert [event[name] for name in ("actor", "source", "reason", "request_id")] == ["ops", "RPC", "a try", "mesh-1"]


def test_a_reload_names_its_token_and_a_denied_one_is_an_event(place: Place, client: OfficialClient) -> None:
    config = model_config.text(Entry("numbered", place.base_path, "all {}"))
    denied = client.ask(
        place.server.grpc, "reload", config=config, reason="no", headers={**bearer(APP), "x-request-id": "r-1"}
    )
    assert (denied["code"], denied["details"]) == (
        PERMISSION_DENIED,
        f"'app' does not have the scope manage, which {RELOAD} needs.",
    )
    done = client.ask(
        place.server.grpc, "reload", config=config, reason="yes", headers={**bearer(OPS), "x-request-id": "r-2"}
    )
    assert done["status"] == [0, ""]
    [event] = singly(place)
    assert [event[name] for name in ("actor", "source", "reason", "request_id")] == ["app", "RPC", "no", "r-1"]
    applied = place.events("config applied")[-1]
    assert [applied[name] for name in ("actor", "source", "reason", "request_id")] == ["ops", "RPC", "yes", "r-2"]


def test_the_command_logs_in(place: Place) -> None:
    assert "numbered" in place.command("models")
    assert "does not have the scope read" in place.command("models", token=APP, code=1)
    assert "not one that this server knows" in place.command("models", token="wrong", code=1)
    place.command("labels", "set", "numbered", "stable", "1", "--reason=because")
    event = place.events("label set")[-1]
    assert [event[name] for name in ("actor", "source", "reason")] == ["ops", "admin", "because"]
    assert place.server.request("GET", "/readyz", to=place.server.admin).status == 200
    for path in ("/metrics", "/api/v1/models"):
        assert place.server.request("GET", path, to=place.server.admin).status == 401


def test_tokens_change_while_the_server_serves(place: Place, client: OfficialClient) -> None:
    place.allow(*IDENTITIES, {"name": "new", "token": "new-token", "scopes": ["inference"]})
    wait_for(lambda: predicted(client, place, "new-token") == "OK", 10, "the new token is known")
    place.tokens.write_text("{")
    place.server.wait_for_log("--access_token_file=", "is not JSON", "stay")
    assert predicted(client, place, "new-token") == "OK"
    place.allow(*IDENTITIES)
    wait_for(lambda: predicted(client, place, "new-token") == UNAUTHENTICATED, 10, "the token is gone")


def singly(place: Place) -> list[Json]:
    """The denied reloads that are events of their own."""
    return [event for event in place.events("call denied") if event["after"]["method"] == RELOAD]


def test_denials_are_counted_and_told_without_tokens(place: Place, client: OfficialClient) -> None:
    """Ends and starts the server: sums of the last minute are written at the end."""
    for _ in range(3):
        assert predicted(client, place, "a-secret-of-nobody") == UNAUTHENTICATED
    earlier = len(singly(place))
    with grpc.insecure_channel(place.server.grpc) as channel:
        reload: Any = channel.unary_unary(f"/{RELOAD}")
        for _ in range(50):
            with pytest.raises(grpc.RpcError):
                reload(b"", timeout=10, metadata=[*bearer(APP).items()])
    page = place.server.request("GET", "/metrics", to=place.server.admin, headers=bearer(OPS)).body.decode()
    assert 'bridge_denied_requests_total{code="UNAUTHENTICATED",port="grpc",scope="inference"}' in page
    place.server.terminate()
    place.server.start()
    sums = place.events("calls denied")
    told = [event for event in sums if event["after"]["method"] == PREDICT]
    assert {event["actor"] for event in told} >= {"127.0.0.1", "ops", "old"}
    assert sum(event["after"]["count"] for event in told if event["actor"] == "127.0.0.1") >= 3
    single = len(singly(place)) - earlier
    assert single >= 10
    assert single + sum(event["after"]["count"] for event in sums if event["after"]["method"] == RELOAD) == 50
    history = place.command("events", "--limit=1000", "--json")
    for token in (APP, OPS, OLD, "a-secret-of-nobody"):
        assert token not in history
        assert token not in place.server.log.read_text()


def test_client_certificates_are_actors_and_have_scopes(
    tmp_path: Path, place: Place, client: OfficialClient, start: Start
) -> None:
    """On a port that leaves inference to whoever has a certificate of the authority."""
    authority = Authority()
    issued, trainer, reader = (authority.issue(common_name=name) for name in (None, "trainer", "reader"))
    config = certificates.ssl_config(
        tmp_path / "ssl.config", key=issued.key, chain=issued.chain, roots=authority.pem, verify=True
    )
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"identities": [{"subject": certificates.subject(trainer), "scopes": ["manage"]}]}))
    server = start(
        "--model_name=numbered",
        f"--model_base_path={place.base_path}",
        f"--ssl_config_file={config}",
        f"--access_token_file={tokens}",
        "--require_access=all:manage",
    )
    address = f"localhost:{server.ports['port']}"
    text = model_config.text(Entry("numbered", place.base_path, "all {}"))

    def ask(rpc: str, identity: Identity, **question: Any) -> Json:
        pems = {"roots": authority.pem, "key": identity.key, "chain": identity.chain}
        return client.ask(address, rpc, tls={name: pem.decode() for name, pem in pems.items()}, **question)

    inputs = {"x": {"dtype": "float32", "values": [1.0]}}
    assert "outputs" in ask("predict", reader, spec={"name": "numbered"}, inputs=inputs)
    assert ask("reload", reader, config=text)["code"] == PERMISSION_DENIED
    assert ask("reload", trainer, config=text)["status"] == [0, ""]
    server.terminate()
    command = [BRIDGE, "events", "--json", f"--state_dir={server.state_dir}"]
    events = json.loads(subprocess.run(command, capture_output=True, timeout=60, check=True).stdout)["events"]
    actors = {event["action"]: event["actor"] for event in events if event["source"] == "RPC"}
    assert (actors["config applied"], actors["call denied"]) == tuple(map(certificates.subject, (trainer, reader)))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--admin_address=0.0.0.0"], "without one the admin port is for loopback addresses only"),
        (["--require_access=all"], "--require_access needs --access_token_file"),
        (["--access_token_file=nowhere.json"], "--access_token_file=nowhere.json cannot be read: No such file"),
    ],
)
def test_starts_that_are_refused(tmp_path: Path, flags: list[str], sentence: str) -> None:
    command = [BRIDGE, "serve", f"--state_dir={tmp_path}/state", *flags]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
