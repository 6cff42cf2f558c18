"""The names in client certificates, which TLS verified before anybody asks here."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)
def subject(pem: bytes) -> str:
    """The subject of a certificate in the form of RFC 4514, `CN=trainer,O=Example`; empty for an empty one."""
    if not pem:
        return ""
    # Its library takes 8 MB, which servers without TLS do without.
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()


def subject_of_der(der: bytes) -> str:
    """As `subject`, of a certificate in DER."""
    from cryptography import x509

    return x509.load_der_x509_certificate(der).subject.rfc4514_string()
