"""Models and vmodels of another ModelMesh, on both databases."""

from __future__ import annotations

import pytest

from bridge.errors import AlreadyExists
from bridge.registry import Actor, Registry
from bridge.registry.imports import ImportedModel, ImportedVModel
from bridge.registry.records import ModelInfo

MODELS = [ImportedModel(id, ModelInfo("tensorflow", id), False, 1_000_000) for id in ("a", "b")]
VMODELS = [ImportedVModel("moving", "me", "a", "b"), ImportedVModel("steady", "", "b", "b")]


def test_an_import_is_one_transaction(registry: Registry, actor: Actor) -> None:
    outcome = registry.import_all(MODELS, VMODELS, actor)
    assert (outcome.models, outcome.vmodels, outcome.unchanged) == (("a", "b"), ("moving", "steady"), 0)
    assert [model.last_used_at for model in registry.registered_models()] == [1_000_000, 1_000_000]
    assert [vmodel.in_transition for vmodel in registry.vmodels()] == [True, False]
    before = registry.events()
    assert registry.import_all(MODELS, VMODELS, actor).unchanged == 4
    conflict = [ImportedVModel("steady", "", "a", "a")]
    with pytest.raises(AlreadyExists, match="vmodel steady already exists"):
        registry.import_all([ImportedModel("c", ModelInfo("onnx"), True, 0)], conflict, actor)
    assert registry.registered_model("c") is None
    assert registry.events() == before


def test_imported_references_count(registry: Registry, actor: Actor) -> None:
    models = [ImportedModel(id, ModelInfo("tensorflow"), True, 0) for id in ("a", "b")]
    registry.import_all(models, [ImportedVModel("v", "", "a", "b")], actor)
    registry.promote_vmodel("v", "a", "b", actor)
    assert [model.id for model in registry.registered_models()] == ["b"]
    registry.delete_vmodel("v", "", actor)
    assert registry.registered_models() == ()
