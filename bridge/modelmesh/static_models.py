"""Models that are registered at every start, as ModelMesh's MM_AUTO_REGISTER_MODELS lists them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.modelmesh.manager import ModelMeshManager
from bridge.placement.model import ModelStatus, Status
from bridge.registry.records import Actor, ModelInfo, SetVModel

logger = logging.getLogger(__name__)

VARIABLE = "MM_AUTO_REGISTER_MODELS"
LOAD_SECONDS = 600.0
"""How long a start waits for each model that has to be loaded."""

PAUSE = 1.0
"""Seconds until a model is tried again for which no instance was there yet."""

STARTER = Actor("bridge", "CLI", VARIABLE)


@dataclass(frozen=True, slots=True)
class StaticModel:
    """One entry. With a `vmodel` that is set to the model, which stays after it is replaced only if `retain` says so.

    A start fails unless a model that is to `ensure_loaded` can be.
    """

    id: str
    info: ModelInfo
    vmodel: str = ""
    retain: bool = False
    ensure_loaded: bool = False


def from_environment(environment: Mapping[str, str]) -> tuple[StaticModel, ...]:
    """The entries of the JSON list in MM_AUTO_REGISTER_MODELS, then those in the file MM_AUTO_REGISTER_MODELS_PATH.

    Raises InvalidArgument.
    """
    found: list[StaticModel] = []
    if text := environment.get(VARIABLE, ""):
        found += parse(text, VARIABLE)
    if path := environment.get(f"{VARIABLE}_PATH", ""):
        try:
            found += parse(Path(path).read_text(), path)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{VARIABLE}_PATH={path} cannot be read: {error}") from error
    return tuple(found)


def parse(text: str, source: str) -> list[StaticModel]:
    """The entries of a JSON list; properties that are not known are ignored, as in ModelMesh.

    Raises InvalidArgument, which names `source`.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{source} is not JSON: {error}") from error
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        raise InvalidArgument(f"{source} is not a JSON list of objects")
    return [_entry(item, f"entry {number} of {source}") for number, item in enumerate(document, start=1)]


async def register(manager: ModelMeshManager, models: Iterable[StaticModel], seconds: float = LOAD_SECONDS) -> None:
    """Register all of them, then wait for those that have to be loaded, each for `seconds` at most.

    A model whose load failed ends that; while no instance takes it, it is tried again.

    Raises BridgeError: of a registration that is refused, or FailedPrecondition for a model that is not loaded.
    """
    entries = list(models)
    for entry in entries:
        await _register(manager, entry)
    for entry in entries:
        if entry.ensure_loaded:
            await _require_loaded(manager, entry.id, seconds)
    if entries:
        logger.info("%s: %d models are registered", VARIABLE, len(entries))


async def _register(manager: ModelMeshManager, entry: StaticModel) -> None:
    if entry.vmodel:
        wanted = SetVModel(
            entry.vmodel, entry.id, entry.info, auto_delete=not entry.retain, load_now=entry.ensure_loaded
        )
        await manager.set_vmodel(wanted, STARTER, sync=False)
    else:
        await manager.register_model(
            entry.id, entry.info, STARTER, load_now=entry.ensure_loaded, sync=False, last_used=0
        )


async def _require_loaded(manager: ModelMeshManager, id: str, seconds: float) -> None:
    status = ModelStatus(Status.NOT_LOADED)
    try:
        async with asyncio.timeout(seconds):
            while status.status is not Status.LOADED and not status.copies:
                status = await manager.ensure_loaded(id, last_used=0, sync=True)
                await asyncio.sleep(0 if status.copies else PAUSE)
    except TimeoutError as error:
        raise FailedPrecondition(
            f"model {id} of {VARIABLE} is not loaded within {seconds:g} s: {_reason(status)}"
        ) from error
    if status.status is not Status.LOADED:
        raise FailedPrecondition(f"model {id} of {VARIABLE} cannot be loaded: {_reason(status)}")


def _reason(status: ModelStatus) -> str:
    return status.errors[0] if status.errors else status.status.name


def _entry(item: Mapping[str, Any], source: str) -> StaticModel:
    info = _typed(item, "modelInfo", dict, source, {})
    return StaticModel(
        id=_typed(item, "modelId", str, source),
        info=ModelInfo(
            _typed(info, "type", str, source), _typed(info, "path", str, source), _typed(info, "key", str, source)
        ),
        vmodel=_typed(item, "vModelId", str, source),
        retain=_typed(item, "retainAfterTransition", bool, source, False),
        ensure_loaded=_typed(item, "ensureLoaded", bool, source, False),
    )


def _typed(item: Mapping[str, Any], name: str, kind: type, source: str, default: Any = "") -> Any:
    value = item.get(name)
    if value is None:
        return default
    if type(value) is not kind:
        raise InvalidArgument(f"{name} in {source} is no {kind.__name__}")
    return value
