"""Names of Triton models: what a client calls a model never reaches Triton, a shell or a path unencoded.

A name is `<kind>.<deployment>.<encoded>[.<version>]`; the encoded part holds no dot, so the parts split unambiguously,
and the whole stays within the 255 bytes of a file name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

MAX_ENCODED_BYTES = 200
_HASH_MARK = "_-"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_DEPLOYMENT = re.compile(r"[0-9a-f]{8}")
_SERVABLE = re.compile(r"(tfs|mm)\.([0-9a-f]{8})\.([A-Za-z0-9_-]*)\.(0|-?[1-9][0-9]*)")
_PROBE = re.compile(r"probe\.([0-9a-f]{8})\.([A-Za-z0-9_-]+)")
_TOKEN = re.compile(r"[A-Za-z0-9-]|__|_([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class ServableName:
    """The parts of a servable's Triton name. `model` is None where the encoding had to hash it.

    A `registered` one belongs to a ModelMesh client; its version is the generation of the registration.
    """

    deployment: str
    encoded: str
    version: int
    model: str | None
    registered: bool = False


def encode(text: str) -> str:
    """An injective form of `text` in `[A-Za-z0-9_-]`, at most 200 bytes long.

    Letters, digits and `-` stay, `_` becomes `__`, any other byte of the UTF-8 form `_hh`. A longer result is cut and
    ends in `_-` and the SHA-256 of the whole text; no shorter text encodes to that, since `_-` is no escape.
    """
    raw = text.encode("utf-8", "surrogatepass")
    tokens = [_token(byte) for byte in raw]
    encoded = "".join(tokens)
    if len(encoded) <= MAX_ENCODED_BYTES:
        return encoded
    tail = _HASH_MARK + hashlib.sha256(raw).hexdigest()
    return _cut(tokens, MAX_ENCODED_BYTES - len(tail)) + tail


def servable_name(deployment: str, model: str, version: int) -> str:
    """Triton's name for one version of a model. Raises ValueError for a malformed deployment id."""
    return f"tfs.{_checked(deployment)}.{encode(model)}.{version}"


def registered_name(deployment: str, id: str, generation: int) -> str:
    """Triton's name for one registration of a ModelMesh model. Raises ValueError for a malformed deployment id."""
    return f"mm.{_checked(deployment)}.{encode(id)}.{generation}"


def probe_name(deployment: str, nonce: str) -> str:
    """Triton's name for a short-lived model that shows whether an instance reads this repository."""
    if not nonce:
        raise ValueError("a probe needs a nonce")
    return f"probe.{_checked(deployment)}.{encode(nonce)}"


def owned_by(name: str, deployment: str) -> bool:
    """Whether `name` is a well-formed name of this deployment; everything else on a Triton is foreign."""
    servable = parse(name)
    if servable is not None:
        return servable.deployment == deployment
    probe = _PROBE.fullmatch(name)
    return probe is not None and probe[1] == deployment


def parse(name: str) -> ServableName | None:
    """The parts of a servable's name, None for any other name."""
    match = _SERVABLE.fullmatch(name)
    if match is None:
        return None
    kind, deployment, encoded, version = match.groups()
    return ServableName(deployment, encoded, int(version), _decode(encoded), kind == "mm")


def _token(byte: int) -> str:
    if byte in _PLAIN:
        return chr(byte)
    return "__" if byte == ord("_") else f"_{byte:02x}"


def _cut(tokens: list[str], room: int) -> str:
    kept, length = [], 0
    for token in tokens:
        length += len(token)
        if length > room:
            break
        kept.append(token)
    return "".join(kept)


def _decode(encoded: str) -> str | None:
    raw, position = bytearray(), 0
    while position < len(encoded):
        token = _TOKEN.match(encoded, position)
        if token is None:
            return None
        raw += bytes.fromhex(token[1]) if token[1] else token[0][:1].encode()
        position = token.end()
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _checked(deployment: str) -> str:
    if _DEPLOYMENT.fullmatch(deployment) is None:
        raise ValueError(f"deployment id {deployment!r} is not 8 lower-case hex digits")
    return deployment
