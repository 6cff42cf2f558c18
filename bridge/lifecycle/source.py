"""Looks at one model's base path and aspires what its policy picks there."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor

from bridge.lifecycle.downloads import Downloads
from bridge.lifecycle.model import ModelManager
from bridge.lifecycle.source_config import SourceRules
from model_repo_sync.object_store import local_path
from model_repo_sync.policy import Policy, Specific, aspired
from model_repo_sync.policy import scan as scan_for
from model_repo_sync.sources import BasePathError, Scan, VersionDirectory, parse_version

logger = logging.getLogger(__name__)


ProblemListener = Callable[[str, str, str | None], None]
"""Told model, path and the sentence of a new problem, or None when the problem at that path is over."""

Recall = Callable[[str], Awaitable[Sequence[VersionDirectory]]]
"""The versions of a model that served when the server ended last and can be served without their base path."""


Watch = Callable[[str, Sequence[VersionDirectory]], Awaitable[Mapping[str, str]]]
"""Sentences by path of the versions whose content is not any more what was loaded from there."""


async def watch_nothing(model: str, versions: Sequence[VersionDirectory]) -> Mapping[str, str]:
    """Nobody knows what was loaded."""
    return {}


async def recall_nothing(model: str) -> Sequence[VersionDirectory]:
    """The recall of a model that was not there before this server started."""
    return ()


class ModelSource:
    """Base path and policy of one model.

    A base path that cannot be read, or a version directory that is half written, never takes away what serves.
    """

    def __init__(
        self,
        manager: ModelManager,
        base_path: str,
        policy: Policy,
        rules: SourceRules,
        executor: Executor,
        downloads: Downloads,
        *,
        on_problem: ProblemListener,
        on_look: Callable[[], None],
        recall: Recall = recall_nothing,
        stale: Collection[str] = (),
        watch: Watch = watch_nothing,
        held: Mapping[int, str] | None = None,
    ) -> None:
        """`stale` are the paths of problems that were known before this server started.

        `held` are the versions to serve whatever the policy says, with where their contents are kept; None for no such.
        """
        self.base_path = base_path
        self.policy = policy
        self.settled = False
        """True once the base path was read: until then nothing of this model may be cleaned up."""
        self.problems: dict[str, str] = {}
        """Sentences by path, as of the last look."""
        self.looked = False
        self.asked = True
        """True from a change until the look that it asks for is over: what that finds was wished for."""
        self.missing = False
        """True while the base path does not exist or cannot be read, as of the last look."""
        self._manager = manager
        self._rules = rules
        self._executor = executor
        self._downloads = downloads
        self._on_problem = on_problem
        self._on_look = on_look
        self._stale = frozenset(stale)
        self._recall = recall
        self._watch = watch
        self.held = held
        self._recalled: dict[int, VersionDirectory] | None = None
        self._stand_in = ""
        self._scanner = downloads.scanner()
        self._kick = asyncio.Event()
        self._changes = 0

    def change(self, base_path: str, policy: Policy, rules: SourceRules, held: Mapping[int, str] | None = None) -> None:
        """Use another base path, policy or rules from now on. Versions that are `held` are aspired at once."""
        if (base_path, policy, rules, held) == (self.base_path, self.policy, self._rules, self.held):
            return
        if base_path != self.base_path:
            self.settled = False
        self.asked = True
        newly = held is not None and held != self.held
        self.base_path, self.policy, self._rules, self.held = base_path, policy, rules, held
        if newly:
            self.aspire_held()
        self._changes += 1
        self._kick.set()

    def aspire_held(self) -> None:
        """Serve at once what is held, where all of it is kept; else the next look finds what there is."""
        if self.held is not None and all(os.path.isdir(path) for path in self.held.values()):
            self._manager.aspire(self._held_directories())

    def end_problems(self) -> None:
        """Nobody looks here any more."""
        self._stand_in = ""
        self._report({})

    async def run(self) -> None:
        """Look until cancelled, as often as the rules say, and after each change unless they say never."""
        while True:
            changes = self._changes
            if self._rules.poll_wait >= 0:
                await self.look()
            self.asked = changes != self._changes
            try:
                async with asyncio.timeout(self._rules.pause(self.base_path)):
                    await self._kick.wait()
            except TimeoutError:
                pass
            self._kick.clear()

    async def look(self) -> None:
        """Read the base path once and aspire what it offers."""
        base_path, policy = self.base_path, self._looked_for()
        self.missing = False
        loop = asyncio.get_running_loop()
        executor = self._executor if local_path(base_path) is not None else self._downloads.executor
        try:
            scan = await loop.run_in_executor(executor, scan_for, self._scanner, base_path, policy)
        except BasePathError as error:
            self.missing = True
            await self._unreadable(f"Could not find base path {base_path} for servable {self._name}: {error.reason}")
        except OSError as error:
            await self._unreadable(f"Could not read base path {base_path} of {self._name}: {error.strerror or error}")
        except Exception as error:
            # A fault of ours must not end the polling: the next version may be readable again.
            sentence = f"Could not read base path {base_path} of {self._name}, a fault of the bridge: {error!r}"
            if self.problems.get(base_path) != sentence:
                logger.exception("reading base path %s failed", base_path)
            await self._unreadable(sentence)
        else:
            first = await self._remember(needed=bool(scan.problems) or not scan.versions)
            changed = await self._watch(self._name, scan.versions)
            if (base_path, policy) == (self.base_path, self._looked_for()):
                self._use(scan, first, changed)
        self.looked = True
        self._on_look()

    @property
    def _name(self) -> str:
        return self._manager.name

    async def _unreadable(self, sentence: str) -> None:
        """What serves stays; what served before a restart comes back from the model repository."""
        if self.held is not None:
            self.settled = True
            self._manager.aspire(self._held_directories())
            self._report({self.base_path: sentence})
            return
        first = await self._remember(needed=True)
        stands_in = first and self._aspire_what_served()
        self._report({self.base_path: sentence})
        if not stands_in:
            self._manager.unreadable()

    async def _remember(self, *, needed: bool) -> bool:
        """At the first look find out what served before, if that is `needed`; whether this is the first look."""
        if self._recalled is not None:
            return False
        recalled = await self._recall(self._name) if needed else ()
        self._recalled = {item.version: item for item in recalled}
        return True

    def _aspire_what_served(self) -> bool:
        """Serve what the policy picks of what served before; False when that is nothing."""
        picked = aspired(list((self._recalled or {}).values()), self.policy, self._name).versions
        if not picked:
            return False
        self._stand_in = (
            f"Until its base path can be used, model {self._name} serves version "
            f"{', '.join(str(item.version) for item in picked)} from the model repository, as before the restart."
        )
        self._manager.aspire(picked)
        return True

    def _use(self, scan: Scan, first: bool, changed: Mapping[str, str]) -> None:
        problems = {problem.path: problem.sentence for problem in scan.problems} | dict(changed)
        if self.held is not None:
            self._use_held(scan, problems)
            return
        picked = aspired(self._offered(scan), self.policy, self._name)
        for number, sentence in enumerate(picked.warnings):
            problems[f"{self.base_path}#{number}"] = sentence
        if not scan.versions and not problems:
            problems[self.base_path] = (
                f"No versions of servable {self._name} found under base path {self.base_path}. "
                "Did you forget to name your leaf directory as a number (eg. '/1/')?"
            )
        if not picked.versions and self._keeps():
            if first:
                self._aspire_what_served()
            self._report(problems)
            return
        self._stand_in = ""
        self._report(problems)
        self.settled = True
        self._manager.aspire(picked.versions)

    def _looked_for(self) -> Policy:
        return self.policy if self.held is None else Specific(tuple(self.held))

    def _use_held(self, scan: Scan, problems: dict[str, str]) -> None:
        """Serve what is held, from the base path where its kept content is gone. What serves stays in any case."""
        offered = {item.version: item for item in scan.versions}
        directories = self._held_directories()
        for position, item in enumerate(directories):
            if item.version in offered and not os.path.isdir(item.path):
                directories[position] = offered[item.version]
                problems[item.path] = (
                    f"{item.path}, which a rollback holds model {self._name} at, is gone: version {item.version} is "
                    f"loaded from {offered[item.version].path} if it has to be."
                )
        self._stand_in = ""
        self._report(problems)
        self.settled = True
        self._manager.aspire(directories)

    def _held_directories(self) -> list[VersionDirectory]:
        return [VersionDirectory(version, path) for version, path in sorted((self.held or {}).items())]

    def _keeps(self) -> bool:
        """Whether what serves stays although nothing is offered; a policy that names no version means just that."""
        serving = self._manager.ready_versions() or self._returning()
        return self._rules.keep_when_empty and self.policy != Specific() and bool(serving)

    def _returning(self) -> dict[int, VersionDirectory]:
        """What served before and was not decided since."""
        decided = self._manager.decided_versions()
        return {version: item for version, item in (self._recalled or {}).items() if version not in decided}

    def _offered(self, scan: Scan) -> Sequence[VersionDirectory]:
        """Complete versions, and those that serve already although their directory is being rewritten."""
        ready, returning = self._manager.ready_versions(), self._returning()
        offered = {item.version: item for item in scan.versions}
        for problem in scan.problems:
            version = parse_version(os.path.basename(problem.path))
            if version in returning:
                offered.setdefault(version, returning[version])
            elif version in ready:
                offered.setdefault(version, VersionDirectory(version, problem.path))
        return list(offered.values())

    def _report(self, problems: dict[str, str]) -> None:
        if self._stand_in:
            problems[f"{self.base_path}#repository"] = self._stand_in
        for path, sentence in problems.items():
            if self.problems.get(path) != sentence:
                logger.warning("%s", sentence)
                self._on_problem(self._manager.name, path, sentence)
        for path in (self.problems.keys() | self._stale) - problems.keys():
            self._on_problem(self._manager.name, path, None)
        self.problems, self._stale = problems, frozenset()
