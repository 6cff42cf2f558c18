"""Checks of the PEM texts in an SSLConfig."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from bridge.errors import InvalidArgument
from model_repo_sync.protos.tensorflow_serving import ssl_config_pb2


def check(path: str, config: ssl_config_pb2.SSLConfig) -> None:
    """Raises InvalidArgument, one sentence: what is missing, is no PEM, does not belong together, or has expired."""
    for field in ("server_key", "server_cert"):
        if not getattr(config, field):
            raise InvalidArgument(f"SSL configuration '{path}' has no {field}.")
    chain = _certificates(path, "server_cert", config.server_cert)
    _check_key(path, config.server_key, chain[0])
    for certificate in chain:
        _check_dates(path, "server_cert", certificate)
    if config.client_verify and not config.custom_ca:
        raise InvalidArgument(
            f"SSL configuration '{path}' has client_verify but no custom_ca to verify clients' certificates with."
        )
    if config.custom_ca:
        _check_roots(path, _certificates(path, "custom_ca", config.custom_ca))


def _certificates(path: str, field: str, text: str) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        raise InvalidArgument(f"SSL configuration '{path}': {field} holds no PEM certificate.") from error


def _check_key(path: str, text: str, certificate: x509.Certificate) -> None:
    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidArgument(
            f"SSL configuration '{path}': server_key is no PEM private key, or it is encrypted."
        ) from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise InvalidArgument(f"SSL configuration '{path}': server_key is not the key of server_cert.")


def _check_roots(path: str, roots: Sequence[x509.Certificate]) -> None:
    """A bundle of roots is of use as long as one of them is valid."""
    faults: list[InvalidArgument] = []
    for root in roots:
        try:
            _check_dates(path, "custom_ca", root)
        except InvalidArgument as fault:
            faults.append(fault)
    if len(faults) == len(roots):
        raise faults[0]


def _check_dates(path: str, field: str, certificate: x509.Certificate) -> None:
    now = datetime.datetime.now(datetime.UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    name = certificate.subject.rfc4514_string()
    if now > end:
        raise InvalidArgument(f"SSL configuration '{path}': {field} '{name}' expired at {end:%Y-%m-%dT%H:%M:%SZ}.")
    if now < begin:
        raise InvalidArgument(f"SSL configuration '{path}': {field} '{name}' is valid from {begin:%Y-%m-%dT%H:%M:%SZ}.")
