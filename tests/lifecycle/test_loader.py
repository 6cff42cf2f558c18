"""Tries, pauses and the sentences of loads. The fleet is a double that fails as a test says."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import BridgeError, Code
from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.loader import Loader, Wish
from bridge.lifecycle.servable import Servable, preparer
from bridge.triton.instance import FailureKind, LoadFailure
from model_repo_sync.saved_model_files import BINARY
from model_repo_sync.source_cache import SourceCache
from model_repo_sync.triton_config import RunnerOptions
from tests.lifecycle import surroundings
from tests.model_repo_sync.builders import GraphBuilder, write
from tests.serving.waiting import until
from tests.support.object_stores import Bucket

MODEL = LoadFailure(FailureKind.MODEL, Code.INVALID_ARGUMENT, "the init op refuses")
PLATFORM = LoadFailure(FailureKind.PLATFORM, Code.UNAVAILABLE, "Triton is down")


class Fleet:
    """Fails a load with each of `failures` in turn, then loads."""

    def __init__(self, *failures: LoadFailure) -> None:
        self.failures = list(failures)
        self.loads: list[Servable] = []

    async def load_first(self, servable: Servable) -> None:
        self.loads.append(servable)
        if self.failures:
            raise self.failures.pop(0)


class Attempts:
    def __init__(self) -> None:
        self.told: list[bool] = []
        self.trouble: list[str] = []

    def on_attempt(self, path: str, success: bool, seconds: float) -> None:
        self.told.append(success)

    def on_trouble(self, model: str, version: int, sentence: str) -> None:
        self.trouble.append(sentence)


Make = Callable[..., Loader]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


@pytest.fixture
def cache(tmp_path: Path) -> SourceCache:
    return SourceCache(tmp_path / "cache")


@pytest.fixture
def make(executor: ThreadPoolExecutor, attempts: Attempts, cache: SourceCache) -> Make:
    def make(fleet: Fleet, retries: int = 0, interval: float = 0, prepare: Any = None) -> Loader:
        return Loader(
            prepare or (lambda model, version, path: surroundings.servable(model, version)),
            fleet,
            executor,
            max_retries=retries,
            retry_interval=interval,
            downloads=Downloads(cache, executor),
            on_trouble=attempts.on_trouble,
            on_attempt=attempts.on_attempt,
        )

    return make


@pytest.mark.parametrize(
    ("failures", "retries", "tries", "loaded"),
    [(0, 0, 1, True), (1, 0, 1, False), (1, 1, 2, True), (2, 1, 2, False), (5, 5, 6, True), (6, 5, 6, False),
     (40, -1, 41, True)],
)  # fmt: skip
async def test_tries(make: Make, attempts: Attempts, failures: int, retries: int, tries: int, loaded: bool) -> None:
    fleet = Fleet(*[MODEL] * failures)
    loader = make(fleet, retries)
    if loaded:
        assert (await loader.load("m", 1, "/m/1", Wish())).version == 1
    else:
        with pytest.raises(BridgeError, match="the init op refuses") as caught:
            await loader.load("m", 1, "/m/1", Wish())
        assert caught.value.code is Code.INVALID_ARGUMENT
    assert (len(fleet.loads), len(attempts.told)) == (tries, tries)
    assert loader.last_error("m", 1) is None


async def test_the_platforms_failures_count_for_nothing(make: Make, attempts: Attempts) -> None:
    fleet = Fleet(PLATFORM, PLATFORM, MODEL, PLATFORM)
    await make(fleet, retries=1).load("m", 1, "/m/1", Wish())
    assert attempts.trouble == ["Triton is down"] * 3
    assert attempts.told == [False, True]


async def test_a_withdrawn_wish_ends_the_pause_with_the_last_error(make: Make) -> None:
    fleet, wish = Fleet(*[MODEL] * 9), Wish()
    loader = make(fleet, retries=5, interval=3600)
    loading = asyncio.create_task(loader.load("m", 1, "/m/1", wish))
    await until(lambda: loader.last_error("m", 1) is not None)
    wish.withdraw()
    with pytest.raises(BridgeError, match="the init op refuses"):
        await asyncio.wait_for(loading, 10)
    assert len(fleet.loads) == 1


async def test_a_withdrawn_wish_of_a_load_that_never_failed_is_cancelled(make: Make) -> None:
    wish = Wish()
    wish.withdraw()
    with pytest.raises(BridgeError, match="Loading of servable cancelled") as caught:
        await make(Fleet(PLATFORM)).load("m", 1, "/m/1", wish)
    assert caught.value.code is Code.CANCELLED


async def test_loads_never_wait_for_the_retries_of_another_model(make: Make) -> None:
    fleet = Fleet(MODEL, MODEL, MODEL)
    loader = make(fleet, retries=5, interval=3600)
    stuck = [asyncio.create_task(loader.load(f"bad{number}", 1, "/bad/1", Wish())) for number in range(3)]
    await until(lambda: len(fleet.loads) == 3)
    started = time.monotonic()
    await asyncio.gather(*(loader.load(f"good{number}", 1, "/good/1", Wish()) for number in range(20)))
    assert time.monotonic() - started < 10
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_an_unexpected_fault_ends_the_version_and_not_the_task(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def prepare(model: str, version: int, path: str) -> Servable:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(BridgeError, match="ZeroDivisionError: division by zero") as caught:
        await make(Fleet(), prepare=prepare).load("m", 1, "/m/1", Wish())
    assert caught.value.code is Code.INTERNAL
    assert "met an unexpected fault" in caplog.text


RESERVE = "Error while attempting to reserve resources to load servable {{name: m version: 7}}: {path}; {reason}"


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [("7", Code.NOT_FOUND, "No such file or directory"), ("file", Code.FAILED_PRECONDITION, "Not a directory")],
)
async def test_a_directory_that_vanished_before_its_load(
    make: Make, tmp_path: Path, name: str, code: Code, reason: str
) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / name)
    with pytest.raises(BridgeError) as caught:
        await make(Fleet()).reserve("m", 7, path)
    assert (caught.value.code, caught.value.message) == (code, RESERVE.format(path=path, reason=reason))


@pytest.mark.parametrize(
    ("spoil", "code", "sentence"),
    [
        (
            lambda path: (path / BINARY).unlink(),
            Code.NOT_FOUND,
            "Specified file path does not appear to contain a SavedModel bundle (should have a file called "
            "`saved_model.pb`)\nSpecified file path: {path}",
        ),
        (
            lambda path: (path / BINARY).rename(path / "export.meta"),
            Code.UNIMPLEMENTED,
            "Session Bundle is deprecated and removed.",
        ),
        (
            lambda path: write(path / "other", GraphBuilder(["train", "gpu"])).joinpath(BINARY).replace(path / BINARY),
            Code.NOT_FOUND,
            "Could not find meta graph def matching supplied tags: { serve }. To inspect available tag-sets in the "
            "SavedModel, please use the SavedModel CLI: `saved_model_cli`",
        ),
    ],
    ids=["no saved_model.pb", "export.meta", "no such tags"],
)
async def test_what_is_no_saved_model_to_serve(
    make: Make, tmp_path: Path, spoil: Callable[[Path], Any], code: Code, sentence: str
) -> None:
    path = write(tmp_path / "1")
    spoil(path)
    loader = make(Fleet(), prepare=preparer("00000000", RunnerOptions()))
    with pytest.raises(BridgeError) as caught:
        await loader.load("m", 1, str(path), Wish())
    assert (caught.value.code, caught.value.message) == (code, sentence.replace("{path}", str(path)))


def copies(cache: SourceCache) -> list[str]:
    return sorted(path.name for path in cache.root.glob("*/*") if path.is_dir())


async def test_a_version_in_a_store_is_copied_held_and_given_back(
    make: Make, tmp_path: Path, cache: SourceCache
) -> None:
    bucket = Bucket("memory://loader")
    bucket.upload(write(tmp_path / "1"), "m/1")
    loader = make(Fleet(), prepare=preparer("00000000", RunnerOptions()))
    servable = await loader.load("m", 1, "memory://loader/m/1", Wish())
    assert Path(servable.saved_model.path, BINARY).is_file()
    await loader.reserve("m", 1, "memory://loader/m/1")
    assert copies(cache) == ["1"]
    await loader.release(servable)
    assert copies(cache) == []


async def test_the_copy_of_a_version_that_fails_goes(make: Make, tmp_path: Path, cache: SourceCache) -> None:
    Bucket("memory://failing").upload(write(tmp_path / "1"), "m/1")
    with pytest.raises(BridgeError):
        await make(Fleet(MODEL)).load("m", 1, "memory://failing/m/1", Wish())
    assert copies(cache) == []


async def test_a_version_that_vanished_from_its_store(make: Make) -> None:
    with pytest.raises(BridgeError) as caught:
        await make(Fleet()).load("m", 7, "memory://nothing/m/7", Wish())
    sentence = RESERVE.format(path="memory://nothing/m/7", reason="No such file or directory")
    assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, sentence)


async def test_a_store_that_does_not_answer_is_the_platforms_failure(
    executor: ThreadPoolExecutor, make: Make, cache: SourceCache, attempts: Attempts, tmp_path: Path
) -> None:
    Bucket("memory://away").upload(write(tmp_path / "1"), "m/1")
    broken = SourceCache(cache.root, free=lambda path: 0 if len(attempts.trouble) < 2 else sys.maxsize)
    loader = make(Fleet())
    loader._downloads = Downloads(broken, executor)
    await loader.load("m", 1, "memory://away/m/1", Wish())
    assert len(attempts.trouble) == 2
    assert attempts.trouble[0].startswith("memory://away/m/1 could not be downloaded: a download needs 225 bytes on")
