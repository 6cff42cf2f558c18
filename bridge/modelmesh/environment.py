"""Environment variables of ModelMesh that mean the same here: those of metrics and of TLS."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.errors import InvalidArgument
from bridge.tfserving.ssl_config import ServerTls
from model_repo_sync.protos.tensorflow_serving import ssl_config_pb2

logger = logging.getLogger(__name__)

Environment = Mapping[str, str]

METRICS, INFO_METRICS = "MM_METRICS", "MM_INFO_METRICS"
CHAIN, KEY = "MM_TLS_KEY_CERT_PATH", "MM_TLS_PRIVATE_KEY_PATH"
PASSPHRASE, CLIENT_AUTH, TRUST = "MM_TLS_PRIVATE_KEY_PASSPHRASE", "MM_TLS_CLIENT_AUTH", "MM_TLS_TRUST_CERT_PATH"
OLD_NAMES = {
    CHAIN: "MM_SVC_GRPC_CA_CERT_PATH",
    KEY: "MM_SVC_GRPC_PRIVATE_KEY_PATH",
    PASSPHRASE: "MM_SVC_GRPC_PRIVATE_KEY_PASSPHRASE",
}
MOST_INFO_ENTRIES = 5
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class MetricsOptions:
    """What MM_METRICS says of Prometheus' page."""

    port: int = 2112
    https: bool = True
    per_model: bool = False
    full_names: bool = False


@dataclass(frozen=True)
class MeshEnvironment:
    """What the variables say. `metrics` and `tls` are None where they are not set; `info` is a gauge with labels."""

    metrics: MetricsOptions | None = None
    info: tuple[str, Mapping[str, str]] | None = None
    tls: ServerTls | None = None


def read(environment: Environment) -> MeshEnvironment:
    """Raises InvalidArgument, one sentence that names the variable."""
    return MeshEnvironment(metrics(environment), info_metric(environment), tls(environment))


def metrics(environment: Environment) -> MetricsOptions | None:
    """None where MM_METRICS is not set, or `disabled`."""
    kind, _, text = environment.get(METRICS, "").partition(":")
    if kind in ("", "disabled"):
        return None
    if kind != "prometheus":
        raise InvalidArgument(f"{METRICS}: '{kind}' is not known here; say prometheus or disabled")
    given = _parameters(METRICS, text)
    scheme = given.pop("scheme", "https")
    if scheme not in ("http", "https"):
        raise InvalidArgument(f"{METRICS}: scheme={scheme} is neither http nor https")
    given.pop("mem_detail", "")
    options = MetricsOptions(
        port=_port(given.pop("port", "2112")),
        https=scheme == "https",
        per_model=_truth("per_model_metrics", given),
        full_names=_truth("fq_names", given),
    )
    if given:
        raise InvalidArgument(f"{METRICS}: the parameter '{next(iter(given))}' is not known")
    return options


def info_metric(environment: Environment) -> tuple[str, Mapping[str, str]] | None:
    """The name and the labels of the gauge in `GROUP:metric_name=NAME;LABEL=VALUE;…`."""
    text = environment.get(INFO_METRICS, "")
    if not text:
        return None
    labels = _parameters(INFO_METRICS, text.partition(":")[2])
    if len(labels) > MOST_INFO_ENTRIES:
        raise InvalidArgument(f"{INFO_METRICS} has {len(labels)} entries; at most {MOST_INFO_ENTRIES} are allowed")
    name = labels.pop("metric_name", "")
    if not _METRIC_NAME.fullmatch(name):
        raise InvalidArgument(f"{INFO_METRICS}: '{name}' cannot be a metric_name")
    for label in labels:
        if not _LABEL_NAME.fullmatch(label):
            raise InvalidArgument(f"{INFO_METRICS}: '{label}' cannot be the name of a label")
    return name, labels


def tls(environment: Environment) -> ServerTls | None:
    """TLS of the ModelMesh port, None where it is not set; names of older ModelMeshes count too."""
    chain, key = _named(environment, CHAIN), _named(environment, KEY)
    if not chain and not key:
        return None
    if not chain or not key:
        raise InvalidArgument(f"{CHAIN} and {KEY} are only of use together")
    verify = _client_auth(environment.get(CLIENT_AUTH, "") or "NONE")
    roots = b"\n".join(_file(TRUST, path) for path in environment.get(TRUST, "").split(",") if path)
    pem = _decrypted(_file(KEY, key), _named(environment, PASSPHRASE))
    config = ssl_config_pb2.SSLConfig(
        server_key=_text(KEY, pem),
        server_cert=_text(CHAIN, _file(CHAIN, chain)),
        custom_ca=_text(TRUST, roots),
        client_verify=verify,
    )
    # Its library takes 8 MB, which servers without TLS do without.
    from bridge.tfserving import certificates

    certificates.check("MM_TLS_*", config)
    return ServerTls(pem, config.server_cert.encode(), roots, verify)


def _client_auth(text: str) -> bool:
    if text.upper() not in ("NONE", "OPTIONAL", "REQUIRE"):
        raise InvalidArgument(f"{CLIENT_AUTH}={text} is not NONE, OPTIONAL or REQUIRE")
    if text.upper() == "OPTIONAL":
        logger.warning("%s=OPTIONAL: clients are not asked for certificates, as with NONE", CLIENT_AUTH)
    return text.upper() == "REQUIRE"


def _decrypted(pem: bytes, passphrase: str) -> bytes:
    """The key without its passphrase."""
    if not passphrase:
        return pem
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    try:
        key = load_pem_private_key(pem, passphrase.encode())
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"{KEY}: the key cannot be read with {PASSPHRASE}") from error
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _named(environment: Environment, name: str) -> str:
    return environment.get(name, "") or environment.get(OLD_NAMES[name], "")


def _file(variable: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{variable}: {path} cannot be read: {error.strerror}") from error


def _text(variable: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{variable} names a file that is no PEM") from error


def _parameters(variable: str, text: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for item in text.split(";"):
        name, separator, value = item.partition("=")
        if item.strip():
            if not separator or name.strip() in parameters:
                raise InvalidArgument(f"{variable}: '{item}' is not NAME=VALUE, each name once")
            parameters[name.strip()] = value.strip()
    return parameters


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise InvalidArgument(f"{METRICS}: port={text} is no port")
    return int(text)


def _truth(name: str, given: dict[str, str]) -> bool:
    text = given.pop(name, "false")
    if text.lower() not in _TRUTHS:
        raise InvalidArgument(f"{METRICS}: {name}={text} is neither true nor false")
    return _TRUTHS[text.lower()]
