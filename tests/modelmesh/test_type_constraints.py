from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.errors import InvalidArgument
from bridge.modelmesh.type_constraints import from_environment
from bridge.placement.constraints import Constraint, TypeConstraints

DOCUMENT = json.dumps({"tensorflow": {"required": ["gpu"]}, "_default": {"preferred": ["big"]}})
READ = TypeConstraints({"tensorflow": Constraint(("gpu",)), "_default": Constraint((), ("big",))})


def test_text_or_file(tmp_path: Path) -> None:
    file = tmp_path / "constraints.json"
    file.write_text(DOCUMENT)
    assert from_environment({"MM_TYPE_CONSTRAINTS": DOCUMENT}) == READ
    assert from_environment({"MM_TYPE_CONSTRAINTS_PATH": str(file)}) == READ
    assert from_environment({}) == TypeConstraints()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"MM_TYPE_CONSTRAINTS": "{"}, "MM_TYPE_CONSTRAINTS is not JSON"),
        ({"MM_TYPE_CONSTRAINTS": "[]"}, "MM_TYPE_CONSTRAINTS: type constraints have to be a JSON object"),
        ({"MM_TYPE_CONSTRAINTS_PATH": "/no/such/file"}, "MM_TYPE_CONSTRAINTS_PATH=/no/such/file cannot be read"),
        ({"MM_TYPE_CONSTRAINTS": "{}", "MM_TYPE_CONSTRAINTS_PATH": "x"}, "are both given"),
    ],
)
def test_what_are_no_constraints(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        from_environment(environment)
