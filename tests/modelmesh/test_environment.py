from __future__ import annotations

from pathlib import Path

import pytest

from bridge.errors import InvalidArgument
from bridge.modelmesh import environment
from bridge.modelmesh.environment import MetricsOptions

METRICS = [
    ("", None),
    ("disabled", None),
    ("prometheus", MetricsOptions()),
    ("prometheus:", MetricsOptions()),
    ("prometheus:port=2113;scheme=http", MetricsOptions(2113, https=False)),
    (
        "prometheus:port=1;scheme=https;per_model_metrics=true;fq_names=TRUE;mem_detail=none",
        MetricsOptions(1, per_model=True, full_names=True),
    ),
]


@pytest.mark.parametrize(("text", "options"), METRICS)
def test_metrics(text: str, options: MetricsOptions | None) -> None:
    assert environment.read({"MM_METRICS": text}).metrics == options


INFO = "assistant:metric_name=deployment_info:relabel;deployment=ga;slot=b"


def test_info_metric() -> None:
    assert environment.read({"MM_INFO_METRICS": INFO}).info == (
        "deployment_info:relabel",
        {"deployment": "ga", "slot": "b"},
    )
    assert environment.read({}).info is None


BAD = [
    ({"MM_METRICS": "statsd:port=8126"}, "'statsd' is not known here"),
    ({"MM_METRICS": "prometheus:port=x"}, "port=x is no port"),
    ({"MM_METRICS": "prometheus:port=0"}, "port=0 is no port"),
    ({"MM_METRICS": "prometheus:scheme=ftp"}, "scheme=ftp is neither http nor https"),
    ({"MM_METRICS": "prometheus:colour=red"}, "the parameter 'colour' is not known"),
    ({"MM_METRICS": "prometheus:port"}, "'port' is not NAME=VALUE"),
    ({"MM_METRICS": "prometheus:fq_names=perhaps"}, "fq_names=perhaps is neither true nor false"),
    ({"MM_INFO_METRICS": "x:slot=a"}, "'' cannot be a metric_name"),
    ({"MM_INFO_METRICS": "x:metric_name=m;a b=1"}, "'a b' cannot be the name of a label"),
    ({"MM_INFO_METRICS": "x:metric_name=m;a=1;b=1;c=1;d=1;e=1"}, "has 6 entries; at most 5"),
    ({"MM_TLS_PRIVATE_KEY_PATH": "key"}, "are only of use together"),
    ({"MM_TLS_PRIVATE_KEY_PATH": "/nowhere", "MM_TLS_KEY_CERT_PATH": "/nowhere"}, "cannot be read"),
]


@pytest.mark.parametrize(("variables", "sentence"), BAD)
def test_refusals(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        environment.read(variables)
    assert sentence in caught.value.message
    assert caught.value.message.startswith(next(iter(variables))[:6])


def pem_files(directory: Path) -> dict[str, str]:
    from bridge.telemetry.metrics_port import self_signed

    tls = self_signed()
    (directory / "key.pem").write_bytes(tls.key)
    (directory / "chain.pem").write_bytes(tls.chain)
    return {"key": str(directory / "key.pem"), "chain": str(directory / "chain.pem")}


def test_tls(tmp_path: Path) -> None:
    files = pem_files(tmp_path)
    names = {"MM_TLS_KEY_CERT_PATH": files["chain"], "MM_TLS_PRIVATE_KEY_PATH": files["key"]}
    plain = environment.read(names).tls
    assert plain is not None
    assert (plain.verify, plain.roots) == (False, b"")
    mutual = environment.read(
        {**names, "MM_TLS_CLIENT_AUTH": "require", "MM_TLS_TRUST_CERT_PATH": f"{files['chain']},{files['chain']}"}
    ).tls
    assert mutual is not None
    assert mutual.verify
    assert mutual.roots.count(b"BEGIN CERTIFICATE") == 2
    old = {"MM_SVC_GRPC_CA_CERT_PATH": files["chain"], "MM_SVC_GRPC_PRIVATE_KEY_PATH": files["key"]}
    assert environment.read(old).tls == plain
    with pytest.raises(InvalidArgument, match="is not NONE, OPTIONAL or REQUIRE"):
        environment.read({**names, "MM_TLS_CLIENT_AUTH": "perhaps"})
    with pytest.raises(InvalidArgument, match="client_verify but no custom_ca"):
        environment.read({**names, "MM_TLS_CLIENT_AUTH": "REQUIRE"})


def test_a_key_with_a_passphrase(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    files = pem_files(tmp_path)
    key = load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    names = {"MM_TLS_KEY_CERT_PATH": files["chain"], "MM_TLS_PRIVATE_KEY_PATH": files["key"]}
    tls = environment.read({**names, "MM_TLS_PRIVATE_KEY_PASSPHRASE": "secret"}).tls
    assert tls is not None
    assert b"ENCRYPTED" not in tls.key
    with pytest.raises(InvalidArgument, match="cannot be read with MM_TLS_PRIVATE_KEY_PASSPHRASE"):
        environment.read({**names, "MM_TLS_PRIVATE_KEY_PASSPHRASE": "wrong"})
