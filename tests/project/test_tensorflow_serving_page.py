"""docs/tensorflow-serving.md says what the code does: each table is compared with it, each RPC and URL is asked for."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import yaml

from bridge.errors import Code
from bridge.serving.observer import Answered, Entrypoint
from bridge.tfserving.flag_table import FLAGS, settings
from bridge.tfserving.flags import parse
from bridge.tfserving.metrics import ServingMetrics
from model_repo_sync.protos import POOL
from tests.fuzz.served import Served

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "tensorflow-serving.md"
CPUS = len(os.sched_getaffinity(0))
COMPUTED = {"CPUs": CPUS, "4 × CPUs": 4 * CPUS}
NO_EFFECT = "accepted, no effect: "
STOCK = {flag.name: flag for flag in FLAGS[:48]}
EXAMPLES = '{{"examples": [{{"x": 1.0}}], "signature_name": "{}_x_to_y"}}'
BODIES = {
    "predict": '{"instances": [1.0]}',
    "classify": EXAMPLES.format("classify"),
    "regress": EXAMPLES.format("regress"),
}
SAMPLE_LABEL = re.compile(r'(\w+)="')
OWN = ("tensorflow.serving.PredictionService", "tensorflow.serving.ModelService", "tensorflow.serving.SessionService")

Row = list[str]


def table(title: str) -> list[Row]:
    """The rows of the table under a heading, without its own head."""
    part = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def spans(cell: str) -> list[str]:
    """The code spans of a cell."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Both ports over a test double of Triton."""
    served = Served()
    yield served
    served.close()


def test_every_flag_is_there_in_the_order_of_the_stock_binary() -> None:
    assert [spans(row[0])[0] for row in table("Flags")] == [f"--{name}" for name in STOCK]


@pytest.mark.parametrize("row", table("Flags"), ids=lambda row: spans(row[0])[0])
def test_flags(row: Row) -> None:
    [name], kind, default, state = spans(row[0]), *row[1:]
    flag = STOCK[name.removeprefix("--")]
    assert kind == flag.kind.value
    plain = str(flag.default).lower() if isinstance(flag.default, bool) else str(flag.default)
    assert str(COMPUTED.get(default, "".join(spans(default)))) == plain
    assert state == NO_EFFECT + flag.no_effect if flag.no_effect else re.match("works(;|$)", state)


def test_every_rpc_is_there() -> None:
    named = {(spans(service)[0], name) for service, names, _ in table("RPCs") for name in spans(names)}
    described = {(service, method.name) for service in OWN for method in POOL.FindServiceByName(service).methods}
    assert {pair for pair in named if pair[0] in OWN} == described | {(OWN[0], "PredictStreamed")}


@pytest.mark.parametrize("row", [row for row in table("RPCs") if "tensorflow" in row[0]], ids=str)
def test_rpcs(served: Served, row: Row) -> None:
    [service], names, state = spans(row[0]), spans(row[1]), row[2]
    with grpc.insecure_channel(served.grpc) as channel:
        for name in names:
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(f"/{service}/{name}")(b"", timeout=10)
            unserved = refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert unserved == state.startswith("UNIMPLEMENTED")
            assert unserved != state.startswith("works")


@pytest.mark.parametrize("row", table("URLs"), ids=lambda row: row[2])
def test_urls(served: Served, row: Row) -> None:
    method, _, target = spans(row[2])[0].partition(" ")
    connection = http.client.HTTPConnection(served.rest, timeout=10)
    try:
        body = BODIES.get(target.rpartition(":")[2], "")
        connection.request(method, target, body, {"Origin": "http://localhost"})
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    assert response.status == int(row[3]), answer
    if "error" in row[1]:
        assert answer.startswith(b'{\n    "error": ')


def test_metrics() -> None:
    """A metric whose state is `type only` has no value whatever happens, all others have one."""
    metrics = ServingMetrics()
    metrics.answered(Answered(Entrypoint.GRPC, "Predict", "m", Code.OK, 1.0))
    metrics.ran("Predict", "m", 1.0)
    metrics.examples("m", 1)
    metrics.logged("m", Code.OK)
    metrics.loaded("/m/1", True, 1.0)
    metrics.batched(1, 1)
    metrics.warmed("/m/1", "OK", 1, 1.0)
    lines = metrics.page().decode().splitlines()
    kinds = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    rows = {spans(row[0])[0]: row for row in table("Metrics") if not row[0].endswith("…`")}
    assert {name: row[1] for name, row in rows.items()} == kinds
    for name, (_, _, labels, state) in rows.items():
        samples = [line for line in lines if line.startswith((f"{name}{{", f"{name}_bucket{{"))]
        assert (state == "type only") == (not samples), name
        for sample in samples:
            assert [label for label in SAMPLE_LABEL.findall(sample) if label != "le"] == spans(labels)


def test_the_pod_of_the_migration_page_starts() -> None:
    """Its flags are understood, what it mounts is there, and its grace period outlasts the drain."""
    [block] = re.findall(r"```yaml\n(.*?)```", (DOCS / "migrating-from-tensorflow-serving.md").read_text(), re.DOTALL)
    pod = yaml.safe_load(block)
    [container] = pod["containers"]
    given = parse(container["args"], FLAGS)
    assert not given.leftovers
    assert pod["terminationGracePeriodSeconds"] > settings(given.values).drain_seconds
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
