"""The servers that are compared: one Triton, and before it nginx and bridges of several kinds, all started once."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import nginx
from benchmarks.bare_triton import BareTriton, bare_triton
from benchmarks.calls import Call, identity_call, infer_call, predict_call, rest_infer_call, rest_predict_call
from benchmarks.payloads import HALF_PLUS_TWO, STRINGS, Payload
from examples.server import BRIDGE, Server, serving
from model_repo_sync import names
from tests.support import savedmodels

TRITON, NGINX, BARE = "Triton", "nginx", "Triton, identity"
NATIVE, GRPCIO, WORKERS, MANY = "bridge, native", "bridge, grpcio", "bridge, 2 workers", "bridge, 1,000 models"
MANY_MODELS = 1000

HERE = Path(__file__).parent
MODELS = HERE.parent / "examples" / "models"
MANY_PROGRAM = (sys.executable, str(HERE / "many_models.py"), str(MANY_MODELS))
FLAGS: Mapping[str, tuple[str, ...]] = {
    NATIVE: ("--grpc_server=native",),
    GRPCIO: ("--grpc_server=grpcio",),
    WORKERS: ("--grpc_server=native", "--workers=2"),
    MANY: ("--grpc_server=native",),
}


@dataclass(frozen=True)
class Stand:
    """What runs. `nginx` is the address of the plain hop, empty where there is no nginx."""

    triton: BareTriton
    identity: str
    nginx: str
    bridges: Mapping[str, Server]
    triton_models: Mapping[str, str]
    """The names in Triton of the models of `bridges[NATIVE]`, by their own."""

    def grpc_calls(self, payload: Payload, *paths: str) -> list[Call]:
        """Direct Triton, which the others are compared with, and `paths` as far as they run."""
        return [call for path in (TRITON, *paths) if (call := self._grpc_call(path, payload)) is not None]

    def _grpc_call(self, path: str, payload: Payload) -> Call | None:
        if path in self.bridges:
            return predict_call(path, self.bridges[path].grpc, payload)
        if path == BARE:
            return identity_call(path, self.triton.grpc, self.identity, payload)
        address = self.nginx if path == NGINX else self.triton.grpc
        return infer_call(path, address, self.triton_models[payload.model], payload) if address else None

    def rest_calls(self, payload: Payload, *, row: bool) -> list[Call]:
        """Triton's JSON, and the bridge's in one of its formats."""
        return [
            rest_infer_call(TRITON, self.triton.http, self.triton_models[payload.model], payload),
            rest_predict_call(NATIVE, self.bridges[NATIVE].rest, payload, row=row),
        ]


@contextmanager
def stand(scratch: Path) -> Iterator[Stand]:
    """All of them, started; needs the main thread."""
    with ExitStack() as stack:
        triton = stack.enter_context(bare_triton(scratch / "triton"))
        config = _models(scratch)
        bridges = {}
        for number, (name, flags) in enumerate(FLAGS.items()):
            program = (
                [sys.executable, str(HERE / "many_models.py"), str(MANY_MODELS)] if name == MANY else [str(BRIDGE)]
            )
            state = scratch / f"bridge{number}"
            bridges[name] = stack.enter_context(serving(state, [*_flags(triton, config), *flags], program=program))
        hop = stack.enter_context(nginx.nginx(scratch / "nginx", triton.grpc)) if nginx.available() else ""
        yield Stand(triton, triton.add_identity(), hop, bridges, _triton_models(bridges[NATIVE]))


def _flags(triton: BareTriton, config: Path) -> list[str]:
    return [
        f"--triton_url={triton.grpc}",
        f"--triton_http_url={triton.http}",
        f"--triton_repository={triton.repository}",
        f"--model_config_file={config}",
        "--log_level=warning",
    ]


def _models(scratch: Path) -> Path:
    """A configuration file of the models."""
    base = savedmodels.make("identity", scratch / "models" / STRINGS / "1", dtype="string").parent
    places = {HALF_PLUS_TWO: MODELS / HALF_PLUS_TWO, STRINGS: base}
    entries = [
        f'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" }}' for name, path in places.items()
    ]
    config = scratch / "models.config"
    config.write_text(f"model_config_list {{ {' '.join(entries)} }}\n")
    return config


def _triton_models(bridge: Server) -> dict[str, str]:
    with urllib.request.urlopen(f"http://{bridge.admin}/api/v1/instances", timeout=10) as response:
        (instance,) = json.load(response)["instances"]
    parsed = {name: servable for name in instance["copies"] if (servable := names.parse(name)) is not None}
    return {servable.model: name for name, servable in parsed.items() if servable.model is not None}
