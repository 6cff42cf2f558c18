"""Whether one Triton can serve this deployment, found out by a model that only describes its runner."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from bridge.errors import BridgeError, Unavailable
from bridge.triton.calls import CallError
from bridge.triton.instance import LoadFailure, RunnerInfo, TritonInstance
from model_repo_sync.names import probe_name
from model_repo_sync.repository import ModelRepository
from model_repo_sync.runner import tensorflow_engine
from model_repo_sync.transfer import TransferError
from model_repo_sync.triton_config import RunnerOptions
from model_repo_sync.triton_config import probe as probe_config

logger = logging.getLogger(__name__)

OLDEST = (2, 51)
"""Triton 24.10, the oldest that the bridge was tried with."""

VISIBLE_SECONDS = 5.0
"""How long a new directory may take to show in Triton: network file systems cache what a directory holds."""

LOAD_SECONDS = 60.0
PING_SECONDS = 10.0
UNLOAD_SECONDS = 10.0
AUTO_COMPLETED = "bridge.auto_complete"
"""The output that the runner adds to its model where Triton asks it to complete the configuration."""


class ProbeFailure(Unavailable):
    """The instance is not fit: what was found and what helps, each one sentence without its full stop."""

    def __init__(self, sentence: str, cure: str) -> None:
        super().__init__(f"{sentence}. {cure}.")
        self.sentence = sentence
        self.cure = cure


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """A fit instance. `notes` say what makes it slower or less observable than it could be."""

    triton: str
    runner: RunnerInfo
    notes: tuple[str, ...]


async def probe(instance: TritonInstance, repository: ModelRepository, seen: str) -> ProbeReport:
    """Write a probe model into `repository`, which Triton should see as its repository path `seen`, and run it.

    The probe is removed again whatever happens. Raises ProbeFailure.
    """
    version = await _version(instance)
    name = probe_name(repository.deployment, secrets.token_hex(8))
    try:
        await _write(instance, repository, name)
        await _wait_until_visible(instance, repository, name, seen)
        await _load(instance, name)
        runner = await _ask_runner(instance, name)
        notes = await _notes(instance, name, runner)
    finally:
        await _remove(instance, repository, name)
    for note in notes:
        logger.warning("Triton instance %s: %s", instance.name, note)
    return ProbeReport(version, runner, notes)


async def _version(instance: TritonInstance) -> str:
    try:
        version = (await instance.server_metadata()).version
    except CallError as error:
        raise ProbeFailure(error.message, "Start that Triton or correct --triton_url") from None
    if _numbers(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        sentence = f"Triton instance {instance.name} is version {version!r} and the bridge needs at least {oldest}"
        raise ProbeFailure(sentence, "Use Triton 24.10 or later")
    return version


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()


async def _write(instance: TritonInstance, repository: ModelRepository, name: str) -> None:
    config = probe_config(name, RunnerOptions())
    try:
        await asyncio.to_thread(repository.write, name, None, config)
    except (OSError, TransferError) as error:
        sentence = f"The repository {repository.path} of Triton instance {instance.name} cannot be written: {error}"
        raise ProbeFailure(sentence, "Give --triton_repository a directory that the bridge may write") from None


async def _wait_until_visible(instance: TritonInstance, repository: ModelRepository, name: str, seen: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + VISIBLE_SECONDS
    while name not in await _index(instance):
        if loop.time() > deadline:
            raise ProbeFailure(
                f"A model written to {repository.path} does not show in Triton instance {instance.name}, "
                f"which should see that directory as {seen}",
                "Give --triton_repository=PATH=PATH_AS_TRITON_SEES_IT the directory of Triton's --model-repository",
            )
        await asyncio.sleep(0.1)


async def _index(instance: TritonInstance) -> dict[str, object]:
    try:
        return dict(await instance.index())
    except CallError as error:
        raise ProbeFailure(error.message, "Look into Triton's log") from None


async def _load(instance: TritonInstance, name: str) -> None:
    try:
        await instance.load(name, LOAD_SECONDS)
    except LoadFailure as failure:
        sentence = f"Triton instance {instance.name} cannot load a model: {failure.message}"
        raise ProbeFailure(sentence, _load_cure(failure.message)) from None


_LOAD_CURES = (
    ("load / unload is not allowed", "Start Triton with --model-control-mode=explicit"),
    (
        "unable to find backend library",
        "Copy the package model_repo_sync.runner into Triton's --backend-directory as tensorflow_runner",
    ),
    (
        "failed to poll from model repository",
        "Let Triton's user read the directory, and look into Triton's log for what it could not read",
    ),
    ("has not loaded", "Look into Triton's log for why its stub does not start: Python, numpy below 2, shared memory"),
    ("shared memory", "Give Triton a larger /dev/shm"),
)


def _load_cure(message: str) -> str:
    cures = (cure for text, cure in _LOAD_CURES if text in message)
    return next(cures, "Look into Triton's log; the Python of its stub needs tensorflow and numpy below 2")


async def _ask_runner(instance: TritonInstance, name: str) -> RunnerInfo:
    try:
        return await instance.ping(name, PING_SECONDS)
    except CallError as error:
        sentence = f"The runner of Triton instance {instance.name} does not answer: {error.message}"
        raise ProbeFailure(sentence, "Look into Triton's log; the Python of its stub needs numpy below 2") from None


async def _notes(instance: TritonInstance, name: str, runner: RunnerInfo) -> tuple[str, ...]:
    notes = []
    ours = tensorflow_engine.__version__
    if runner.version != ours:
        notes.append(
            f"its tensorflow_runner is version {runner.version} and this bridge brings {ours}: "
            "renew the one in Triton's --backend-directory"
        )
    try:
        if not await instance.server_ready():
            notes.append("it says it is not ready after a failed load: start Triton with --strict-readiness=false")
        if AUTO_COMPLETED in await instance.model_outputs(name):
            notes.append("it loads models slowly: start Triton with --disable-auto-complete-config")
    except CallError as error:
        raise ProbeFailure(error.message, "Look into Triton's log") from None
    return tuple(notes)


async def _remove(instance: TritonInstance, repository: ModelRepository, name: str) -> None:
    try:
        await instance.unload(name, UNLOAD_SECONDS)
    except BridgeError as error:
        logger.debug("the probe %s may still be loaded on Triton instance %s: %s", name, instance.name, error)
    try:
        await asyncio.to_thread(repository.remove, name)
    except OSError as error:
        logger.warning("the probe %s stays in the repository %s for now: %s", name, repository.path, error)
