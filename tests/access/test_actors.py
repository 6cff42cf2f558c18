from __future__ import annotations

from bridge.access.actors import actor
from bridge.access.identity import Identity, Kind
from bridge.registry.records import Actor

OPS = Identity("ops", Kind.TOKEN)


def test_reason_and_request_id_come_from_metadata() -> None:
    metadata = {"x-audit-reason": "a hot fix", "x-request-id": "7", "authorization": "Bearer secret"}
    assert actor(OPS, "RPC", metadata) == Actor("ops", "RPC", "a hot fix", "7")
    assert actor(OPS, "admin", {}) == Actor("ops", "admin", "", "")


def test_what_clients_write_is_cut_at_a_kibibyte_between_characters() -> None:
    long = Identity("é" * 1000, Kind.CERTIFICATE)
    found = actor(long, "RPC", {"x-audit-reason": "é" * 1000, "x-request-id": "x" * 2000})
    assert (found.name, found.reason, found.request_id) == ("é" * 512, "é" * 512, "x" * 1024)
