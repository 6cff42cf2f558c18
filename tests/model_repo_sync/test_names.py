from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_repo_sync import names

DEPLOYMENT = "0123abcd"
SAFE = re.compile(r"[A-Za-z0-9_-]*")


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("half-plus-two", "half-plus-two"),
        ("half_plus_two", "half__plus__two"),
        ("p$(touch PWN)", "p_24_28touch_20PWN_29"),
        ("a/b", "a_2fb"),
        ("..", "_2e_2e"),
        ("../../etc/passwd", "_2e_2e_2f_2e_2e_2fetc_2fpasswd"),
        ("a.b", "a_2eb"),
        ("ü", "_c3_bc"),
        ("_c3", "__c3"),
        ("\0\n", "_00_0a"),
        ("\ud800", "_ed_a0_80"),
        ("", ""),
    ],
)
def test_encoding(text: str, encoded: str) -> None:
    assert names.encode(text) == encoded


@pytest.mark.parametrize("text", ["m" * 300, "_" * 101, "ü" * 100, "/" * 67])
def test_long_names_are_hashed_within_the_limit(text: str) -> None:
    encoded = names.encode(text)
    assert len(encoded) <= names.MAX_ENCODED_BYTES
    assert re.search(r"_-[0-9a-f]{64}$", encoded)
    assert names.encode(text + "x") != encoded


def test_the_longest_name_is_a_file_name() -> None:
    assert len(names.servable_name(DEPLOYMENT, "/" * 5000, -(2**63))) <= 255


def test_no_text_encodes_to_the_hash_of_another() -> None:
    assert names.encode(names.encode("m" * 300)) != names.encode("m" * 300)


@given(st.text(max_size=120), st.text(max_size=120))
def test_encoding_is_injective_and_safe(one: str, other: str) -> None:
    assert (names.encode(one) == names.encode(other)) == (one == other)
    assert SAFE.fullmatch(names.encode(one))


@given(st.text(max_size=16), st.integers(-(2**63), 2**63 - 1))
def test_parse_gives_the_parts_back(model: str, version: int) -> None:
    parsed = names.parse(names.servable_name(DEPLOYMENT, model, version))
    assert parsed == names.ServableName(DEPLOYMENT, names.encode(model), version, model)


def test_parse_of_a_hashed_name_knows_no_model() -> None:
    parsed = names.parse(names.servable_name(DEPLOYMENT, "m" * 300, 1))
    assert parsed is not None
    assert (parsed.model, parsed.encoded) == (None, names.encode("m" * 300))


@pytest.mark.parametrize(
    "name",
    ["resnet", "tfs.0123abcd.m", "tfs.0123abcd.m.01", "tfs.0123abcd.m.-0", "tfs.0123ABCD.m.1", "tfs.0123abcd.a.b.1",
     "tfs.0123abcd.m.1\n", "xtfs.0123abcd.m.1"],
)  # fmt: skip
def test_other_names_are_foreign(name: str) -> None:
    assert names.parse(name) is None
    assert not names.owned_by(name, DEPLOYMENT)


def test_ownership() -> None:
    assert names.owned_by(names.servable_name(DEPLOYMENT, "a/b", -5), DEPLOYMENT)
    assert names.owned_by(names.probe_name(DEPLOYMENT, "n-1"), DEPLOYMENT)
    assert not names.owned_by(names.servable_name("ffffffff", "a/b", -5), DEPLOYMENT)


@pytest.mark.parametrize("deployment", ["", "0123ABCD", "0123abc", "0123abcde", "../../.."])
def test_a_malformed_deployment_id_is_refused(deployment: str) -> None:
    with pytest.raises(ValueError, match="8 lower-case hex digits"):
        names.servable_name(deployment, "m", 1)
