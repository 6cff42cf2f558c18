from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code
from bridge.tfserving import ssl_config
from tests.support import certificates
from tests.support.certificates import Authority, Identity


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.issue()


def test_key_and_chain(tmp_path: Path, server: Identity) -> None:
    path = certificates.ssl_config(tmp_path / "ssl", key=server.key, chain=server.chain)
    tls = ssl_config.read(str(path))
    assert (tls.key, tls.chain, tls.roots, tls.verify) == (server.key, server.chain, b"", False)
    assert tls.grpc_credentials() is not None
    assert tls.ssl_context().verify_mode is ssl.CERT_NONE


def test_clients_are_verified_against_the_roots(tmp_path: Path, server: Identity) -> None:
    path = certificates.ssl_config(
        tmp_path / "ssl", key=server.key, chain=server.chain, roots=server.authority, verify=True
    )
    tls = ssl_config.read(str(path))
    assert tls.grpc_credentials() is not None
    context = tls.ssl_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_one_valid_root_of_a_bundle_is_enough(tmp_path: Path, authority: Authority, server: Identity) -> None:
    expired = authority.issue("old.test", days=-1).chain
    path = certificates.ssl_config(
        tmp_path / "ssl", key=server.key, chain=server.chain, roots=expired + server.authority, verify=True
    )
    assert ssl_config.read(str(path)).verify


FAULTS = [
    ({"chain": True}, "has no server_key."),
    ({"key": True}, "has no server_cert."),
    ({"key": b"no key\n", "chain": True}, "server_key is no PEM private key, or it is encrypted."),
    ({"key": True, "chain": b"no certificate\n"}, "server_cert holds no PEM certificate."),
    ({"key": "other", "chain": True}, "server_key is not the key of server_cert."),
    ({"key": "expired", "chain": "expired"}, r"server_cert '.*' expired at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ."),
    ({"key": True, "chain": True, "verify": True}, "has client_verify but no custom_ca to verify"),
    ({"key": True, "chain": True, "roots": b"no root\n"}, "custom_ca holds no PEM certificate."),
    ({"key": True, "chain": True, "roots": "expired", "verify": True}, "custom_ca '.*' expired at"),
]


@pytest.mark.parametrize(("parts", "sentence"), FAULTS)
def test_what_cannot_be_served_with(
    tmp_path: Path, authority: Authority, server: Identity, parts: dict[str, bytes | str | bool], sentence: str
) -> None:
    identities = {"other": authority.issue("other.test"), "expired": authority.issue(days=-1), True: server}

    def part(name: str, field: str) -> bytes:
        value = parts.get(name, b"")
        return value if isinstance(value, bytes) else bytes(getattr(identities[value], field))

    path = certificates.ssl_config(
        tmp_path / "ssl",
        key=part("key", "key"),
        chain=part("chain", "chain"),
        roots=part("roots", "chain"),
        verify=bool(parts.get("verify")),
    )
    with pytest.raises(BridgeError) as caught:
        ssl_config.read(str(path))
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert str(path) in caught.value.message
    assert re.search(sentence, caught.value.message)


def test_files_that_are_no_ssl_config(tmp_path: Path) -> None:
    with pytest.raises(BridgeError) as missing:
        ssl_config.read(f"{tmp_path}/missing")
    assert (missing.value.code, missing.value.message) == (
        Code.NOT_FOUND,
        f"{tmp_path}/missing; No such file or directory",
    )
    (tmp_path / "pem").write_text("-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(BridgeError) as unreadable:
        ssl_config.read(f"{tmp_path}/pem")
    assert (unreadable.value.code, unreadable.value.message) == (
        Code.INVALID_ARGUMENT,
        f"Invalid protobuf file: '{tmp_path}/pem'",
    )
