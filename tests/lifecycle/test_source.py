"""Base paths that come, go and break, on a real file system."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.source import ModelSource
from bridge.lifecycle.source_config import SourceRules
from model_repo_sync.policy import All, Latest, Policy, Specific
from model_repo_sync.source_cache import TemporaryCache
from model_repo_sync.sources import Scan, VersionDirectory
from tests.lifecycle.surroundings import FakeSurroundings
from tests.model_repo_sync.builders import saved_model, write


class Look:
    """A source over `base`, with the problems that it told of, in order; None marks the end of one."""

    def __init__(
        self,
        base: Path,
        policy: Policy,
        *,
        keep: bool,
        executor: ThreadPoolExecutor,
        served: Sequence[int] = (),
        stale: Sequence[str] = (),
    ) -> None:
        async def recall(model: str) -> list[VersionDirectory]:
            return [VersionDirectory(version, f"/repository/{model}.{version}") for version in served]

        self.around = FakeSurroundings()
        self.told: list[tuple[str, str | None]] = []
        self.source = ModelSource(
            self.around.manager,
            str(base),
            policy,
            SourceRules(poll_wait=1, keep_when_empty=keep),
            executor,
            Downloads(TemporaryCache(), executor),
            on_problem=lambda model, path, sentence: self.told.append((path, sentence)),
            on_look=lambda: None,
            recall=recall,
            stale=stale,
        )

    async def again(self) -> None:
        """Look once more and let every load that it asks for succeed."""
        await self.source.look()
        await self.around.turn()
        while self.around.loads:
            await self.around.finish(max(self.around.loads))
        for version in list(self.around.unloads):
            await self.around.let_go(version)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("1", "2"):
        write(tmp_path / "m" / name)
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("policy", "serving"),
    [(Latest(), [2]), (Latest(5), [1, 2]), (All(), [1, 2]), (Specific((1,)), [1]), (Specific((1, 7)), [1])],
)
async def test_policies(base: Path, executor: ThreadPoolExecutor, policy: Policy, serving: list[int]) -> None:
    look = Look(base, policy, keep=True, executor=executor)
    await look.again()
    assert look.around.serving() == serving
    assert look.source.settled


@pytest.mark.parametrize(("keep", "serving"), [(True, [2]), (False, [])])
async def test_an_emptied_base_path(base: Path, executor: ThreadPoolExecutor, keep: bool, serving: list[int]) -> None:
    look = Look(base, Latest(), keep=keep, executor=executor)
    await look.again()
    for directory in base.iterdir():
        shutil.rmtree(directory)
    await look.again()
    assert look.around.serving() == serving


async def test_naming_no_version_unloads_everything(base: Path, executor: ThreadPoolExecutor) -> None:
    look = Look(base, Latest(), keep=True, executor=executor)
    await look.again()
    look.source.change(str(base), Specific(), SourceRules(1, keep_when_empty=True))
    await look.again()
    assert look.around.serving() == []


async def test_a_removed_base_path_takes_nothing_away_and_is_told_once(
    base: Path, executor: ThreadPoolExecutor
) -> None:
    look = Look(base, Latest(), keep=False, executor=executor)
    await look.again()
    base.rename(base.with_name("gone"))
    for _ in range(3):
        await look.again()
    assert look.around.serving() == [2]
    sentence = f"Could not find base path {base} for servable m: No such file or directory"
    assert look.told == [(str(base), sentence)]
    base.with_name("gone").rename(base)
    await look.again()
    assert look.told[1:] == [(str(base), None)]


async def test_a_fault_of_the_scan_does_not_end_the_polling(
    base: Path, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def scan(*_: object) -> Scan:
        raise ZeroDivisionError("at the fault")

    look = Look(base, Latest(), keep=False, executor=executor)
    with monkeypatch.context() as patched:
        patched.setattr("bridge.lifecycle.source.scan_for", scan)
        for _ in range(3):
            await look.again()
    [(path, sentence)] = look.told
    assert path == str(base)
    assert "a fault of the bridge: ZeroDivisionError('at the fault')" in str(sentence)
    assert sum(record.exc_info is not None for record in caplog.records) == 1
    await look.again()
    assert look.around.serving() == [2]
    assert look.told[1:] == [(str(base), None)]


async def test_a_served_version_that_is_being_rewritten_stays(base: Path, executor: ThreadPoolExecutor) -> None:
    look = Look(base, Latest(), keep=False, executor=executor)
    await look.again()
    whole = (base / "2" / "saved_model.pb").read_bytes()
    (base / "2" / "saved_model.pb").write_bytes(whole[: len(whole) // 2] + b"\xff")
    await look.again()
    assert look.around.serving() == [2]
    assert [path for path, _ in look.told] == [str(base / "2")]


async def test_a_half_copied_version_is_served_once_it_is_whole(base: Path, executor: ThreadPoolExecutor) -> None:
    look = Look(base, Latest(), keep=False, executor=executor)
    await look.again()
    (base / "3").mkdir()
    await look.again()
    await look.again()
    assert look.around.serving() == [2]
    assert [path for path, _ in look.told] == [str(base / "3")]
    (base / "3" / "saved_model.pb").write_bytes(saved_model())
    await look.again()
    assert look.around.serving() == [3]
    assert look.told[-1] == (str(base / "3"), None)


def emptied(base: Path) -> None:
    for directory in base.iterdir():
        shutil.rmtree(directory)


def unreadable(base: Path) -> None:
    shutil.rmtree(base)
    base.touch()


def half_written(base: Path) -> None:
    (base / "2" / "saved_model.pb").write_bytes(b"\x0a\xff")


@pytest.mark.parametrize(
    ("spoil", "policy", "served", "serving"),
    [
        (shutil.rmtree, Latest(), (2,), [2]),
        (shutil.rmtree, All(), (1, 2), [1, 2]),
        (shutil.rmtree, Latest(), (1, 2), [2]),
        (shutil.rmtree, Specific((1,)), (1, 2), [1]),
        (shutil.rmtree, Specific((3,)), (1, 2), []),
        (shutil.rmtree, Latest(), (), []),
        (unreadable, Latest(), (2,), [2]),
        (emptied, Latest(), (2,), [2]),
        (half_written, Latest(), (2,), [2]),
        (half_written, All(), (1, 2), [1, 2]),
        (half_written, Latest(), (), [1]),
    ],
)
async def test_a_restart_ends_in_the_same_state(
    base: Path,
    executor: ThreadPoolExecutor,
    spoil: Callable[[Path], None],
    policy: Policy,
    served: Sequence[int],
    serving: list[int],
) -> None:
    spoil(base)
    look = Look(base, policy, keep=True, executor=executor, served=served)
    await look.source.look()
    await look.source.look()
    await look.again()
    assert look.around.serving() == serving
    await look.again()
    assert look.around.serving() == serving
    stand_in = [sentence for _, sentence in look.told if sentence and "from the model repository" in sentence]
    assert len(stand_in) == (1 if serving and spoil is not half_written else 0)


async def test_without_servable_versions_always_present_an_emptied_base_path_serves_nothing(
    base: Path, executor: ThreadPoolExecutor
) -> None:
    emptied(base)
    look = Look(base, Latest(), keep=False, executor=executor, served=(2,))
    await look.again()
    assert look.around.serving() == []


async def test_the_base_path_takes_over_when_it_is_back(base: Path, executor: ThreadPoolExecutor) -> None:
    base.rename(base.with_name("gone"))
    look = Look(base, Latest(), keep=True, executor=executor, served=(1,))
    await look.again()
    assert look.around.serving() == [1]
    assert not look.source.settled
    base.with_name("gone").rename(base)
    await look.again()
    assert look.around.serving() == [2]
    assert look.source.settled
    assert look.source.problems == {}


async def test_a_readable_base_path_asks_nobody_what_served(base: Path, executor: ThreadPoolExecutor) -> None:
    look = Look(base, Latest(), keep=True, executor=executor, served=(1,))
    await look.again()
    shutil.rmtree(base)
    await look.again()
    assert look.around.serving() == [2]


async def test_a_changed_policy_picks_once_the_base_path_is_back(base: Path, executor: ThreadPoolExecutor) -> None:
    base.rename(base.with_name("gone"))
    look = Look(base, All(), keep=True, executor=executor, served=(1, 2))
    await look.again()
    look.source.change(str(base), Specific((1,)), SourceRules(1, keep_when_empty=True))
    await look.again()
    assert look.around.serving() == [1, 2]
    base.with_name("gone").rename(base)
    await look.again()
    assert look.around.serving() == [1]


async def test_problems_of_the_life_before_end_with_the_first_look(base: Path, executor: ThreadPoolExecutor) -> None:
    look = Look(base, Latest(), keep=True, executor=executor, stale=("version 1", str(base), str(base / "3")))
    (base / "3").mkdir()
    await look.again()
    assert sorted(path for path, sentence in look.told if sentence is None) == [str(base), "version 1"]
    assert [path for path, sentence in look.told if sentence] == [str(base / "3")]
    look.source.end_problems()
    assert look.told[-1] == (str(base / "3"), None)


def held(directory: Path, *versions: int) -> dict[int, str]:
    """Kept contents of these versions."""
    return {version: str(write(directory / f"kept{version}")) for version in versions}


async def test_what_is_held_serves_whatever_the_base_path_has(
    base: Path, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    look = Look(base, Latest(), keep=True, executor=executor)
    await look.again()
    look.source.change(str(base), Latest(), SourceRules(1, keep_when_empty=True), held(tmp_path, 1))
    await look.again()
    assert look.around.serving() == [1]
    write(base / "3")
    await look.again()
    assert look.around.serving() == [1]
    base.rename(base.with_name("gone"))
    await look.again()
    assert look.around.serving() == [1]
    assert [path for path, sentence in look.told if sentence] == [str(base)]
    base.with_name("gone").rename(base)
    look.source.change(str(base), Latest(), SourceRules(1, keep_when_empty=True), None)
    await look.again()
    assert look.around.serving() == [3]


async def test_a_held_content_that_is_gone_comes_from_the_base_path(
    base: Path, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    kept = held(tmp_path, 1)
    shutil.rmtree(kept[1])
    look = Look(base, Latest(), keep=True, executor=executor)
    look.source.change(str(base), Latest(), SourceRules(1, keep_when_empty=True), kept)
    await look.again()
    assert look.around.serving() == [1]
    [(path, sentence)] = look.told
    assert path == kept[1]
    assert sentence == (
        f"{path}, which a rollback holds model m at, is gone: version 1 is loaded from {base / '1'} if it has to be."
    )
    shutil.rmtree(base / "1")
    await look.again()
    assert look.around.serving() == [1]
