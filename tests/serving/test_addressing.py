from __future__ import annotations

import pytest

from bridge.codec.model_spec import ModelSpec, Namespace
from bridge.errors import BridgeError, Code
from bridge.serving.addressing import MODELMESH, TF_SERVING, MetadataEntry

REGISTERED, VMODEL = (Namespace.REGISTERED,), (Namespace.VMODELS,)
BOTH = "must include only one of model id and vmodel id"


@pytest.mark.parametrize(
    ("entries", "name", "lookup"),
    [
        ([("mm-model-id", "m")], "m", REGISTERED),
        ([("mm-model-id-bin", "ü".encode())], "ü", REGISTERED),
        ([("mm-vmodel-id", "v")], "v", VMODEL),
        ([("mm-vmodel-id-bin", b"v")], "v", VMODEL),
        ([("mm-model-id-bin", b"binary"), ("mm-model-id", "text")], "text", REGISTERED),
        ([("tas-model-id", "old")], "old", REGISTERED),
        ([("tas-model-id", "old"), ("mm-vmodel-id", "v")], "v", VMODEL),
        ([("user-agent", "x"), ("mm-balanced", "true"), ("mm-model-id", "m")], "m", REGISTERED),
    ],
)
@pytest.mark.parametrize("addressing", [TF_SERVING, MODELMESH])
@pytest.mark.parametrize("spec", [None, ModelSpec(version=3, signature="s")])
def test_metadata_names_where_the_message_does_not(
    addressing: object, spec: ModelSpec | None, entries: list[MetadataEntry], name: str, lookup: tuple[Namespace, ...]
) -> None:
    assert isinstance(addressing, type(TF_SERVING))
    expected = (spec or ModelSpec())._replace(name=name, lookup=lookup)
    assert addressing.address(spec, entries) == expected


def test_a_name_in_the_message_wins() -> None:
    entries: list[MetadataEntry] = [("mm-model-id", "m"), ("mm-vmodel-id", "")]
    assert TF_SERVING.address(ModelSpec("a"), entries) == ModelSpec("a")
    found = MODELMESH.address(ModelSpec("a"), entries)
    assert found == ModelSpec("a", lookup=(Namespace.VMODELS, Namespace.REGISTERED, Namespace.MODELS))


def test_without_either_tf_serving_leaves_it_to_the_api() -> None:
    assert TF_SERVING.address(None, []) is None
    assert TF_SERVING.address(ModelSpec(version=1), [("mm-balanced", "true")]) == ModelSpec(version=1)


@pytest.mark.parametrize(
    ("entries", "code", "message"),
    [
        ([], Code.INVALID_ARGUMENT, "must include mm-model-id header"),
        ([("mm-model-id", "m"), ("mm-vmodel-id", "v")], Code.INVALID_ARGUMENT, BOTH),
        ([("mm-model-id-bin", b"m"), ("mm-vmodel-id", "v")], Code.INVALID_ARGUMENT, BOTH),
        ([("mm-model-id", "")], Code.INVALID_ARGUMENT, "provided model-id header must be non-empty"),
        ([("mm-model-id-bin", b"")], Code.INVALID_ARGUMENT, "provided model-id header must be non-empty"),
        ([("mm-vmodel-id", "")], Code.INVALID_ARGUMENT, "provided vmodel-id header must be non-empty"),
        ([("mm-model-id-bin", b"\xff")], Code.INVALID_ARGUMENT, "provided mm-model-id-bin header must be UTF-8"),
        (
            [("mm-model-id", "a"), ("mm-model-id", "b")],
            Code.UNIMPLEMENTED,
            "A request with 2 mm-model-id headers is not supported: ask one model a call.",
        ),
        (
            [("mm-vmodel-id-bin", b"a"), ("mm-vmodel-id-bin", b"b"), ("mm-required", "all")],
            Code.UNIMPLEMENTED,
            "A request with 2 mm-vmodel-id headers is not supported: ask one vmodel a call.",
        ),
    ],
)
def test_refusals_of_modelmesh(entries: list[MetadataEntry], code: Code, message: str) -> None:
    with pytest.raises(BridgeError) as caught:
        MODELMESH.address(ModelSpec(), entries)
    assert (caught.value.code, caught.value.message) == (code, message)
