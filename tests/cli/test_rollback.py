"""`bridge rollback`, `bridge models unpin` and `bridge versions provenance`, without Triton."""

from __future__ import annotations

from contextlib import closing

import pytest

from bridge.registry.records import ModelSpec, Owner
from bridge.registry.registry import Registry
from bridge.registry.rollback_records import ModelRollback, PinnedContent, Provenance
from tests.cli.test_operator_commands import LATEST, Place, offline, online, place
from tests.console.admin_server import TEST

__all__ = ["offline", "online", "place"]

SPEC = ModelSpec("half", "/models/half", policy=LATEST)


def hold(place: Place) -> None:
    """Let a rollback hold `half` at version 1."""
    contents = (PinnedContent(1, "f1", "/models/half/1"),)
    with closing(Registry.open(place.url)) as registry:
        registry.roll_back_model(
            ModelRollback(SPEC, Owner.CONFIG, contents, SPEC.wanted(), "#1", None, {"versions": [1]}), TEST
        )


def test_a_pin_is_shown_and_lifted(place: Place) -> None:
    hold(place)
    assert place.lines("models")[0][2] == "latest (pinned to 1 by a rollback)"
    assert place.json("models", "unpin", "half", "--reason=over") == {"changed": True}
    assert place.run("models", "unpin", "half").stdout == "Model half follows its policy. (it was so before)\n"
    assert place.lines("models")[0][2] == "latest"
    assert "Model 'no' is not known." in place.run("models", "unpin", "no", code=1).output


def test_where_a_version_came_from(place: Place) -> None:
    fields = {"saved_model_checksum": "7", "uuid": "u"}
    seen = Provenance("half", 2, "i", "f" * 64, "/models/half/2", 7, fields, ("classify", "serving_default"), ())
    with closing(Registry.open(place.url)) as registry:
        registry.record_provenance(seen, TEST)
        registry.record_found("half", 2, "e" * 64, 8, TEST)
    lines = place.run("versions", "provenance", "half").stdout.splitlines()
    assert lines[:4] == [
        "version: 2",
        f"fingerprint: {'f' * 64}",
        "files: /models/half/2, 7 bytes",
        "signatures: classify, serving_default",
    ]
    assert lines[5:] == ["TensorFlow's fingerprint: saved_model_checksum=7, uuid=u", f"there now: {'e' * 64}"]
    [shown] = place.json("versions", "provenance", "half", "2")["provenance"]
    assert (shown["tensorflow"], shown["found"]) == (fields, "e" * 64)
    assert place.json("versions", "provenance", "half", "3") == {"provenance": []}


@pytest.mark.parametrize("arguments", [["half"], ["half", "--dry-run"]])
def test_nothing_moves_without_a_server(place: Place, arguments: list[str]) -> None:
    result = place.run("rollback", *arguments, code=1)
    assert result.output == ("Error: A rollback loads and checks before it moves anything, so a server has to run.\n")
