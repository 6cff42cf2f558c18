"""Looks at one model's base path and aspires what its policy picks there."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
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
    ) -> None:
        self.base_path = base_path
        self.policy = policy
        self.settled = False
        """True once the base path was read: until then nothing of this model may be cleaned up."""
        self.problems: dict[str, str] = {}
        """Sentences by path, as of the last look."""
        self.looked = False
        self.missing = False
        """True while the base path does not exist or cannot be read, as of the last look."""
        self._manager = manager
        self._rules = rules
        self._executor = executor
        self._downloads = downloads
        self._on_problem = on_problem
        self._on_look = on_look
        self._scanner = downloads.scanner()
        self._kick = asyncio.Event()

    def change(self, base_path: str, policy: Policy, rules: SourceRules) -> None:
        """Use another base path, policy or rules from now on."""
        if (base_path, policy, rules) == (self.base_path, self.policy, self._rules):
            return
        if base_path != self.base_path:
            self.settled = False
        self.base_path, self.policy, self._rules = base_path, policy, rules
        self._kick.set()

    async def run(self) -> None:
        """Look again and again until cancelled, as often as the rules say; always after a change."""
        if self._rules.poll_wait >= 0:
            await self.look()
        while True:
            try:
                await asyncio.wait_for(self._kick.wait(), self._rules.pause(self.base_path))
            except TimeoutError:
                pass
            self._kick.clear()
            await self.look()

    async def look(self) -> None:
        """Read the base path once and aspire what it offers."""
        base_path, policy = self.base_path, self.policy
        self.missing = False
        loop = asyncio.get_running_loop()
        executor = self._executor if local_path(base_path) is not None else self._downloads.executor
        try:
            scan = await loop.run_in_executor(executor, scan_for, self._scanner, base_path, policy)
        except BasePathError as error:
            self.missing = True
            sentence = f"Could not find base path {base_path} for servable {self._manager.name}: {error.reason}"
            self._report({base_path: sentence})
            self._manager.unreadable()
        except OSError as error:
            self._report(
                {base_path: f"Could not read base path {base_path} of {self._manager.name}: {error.strerror or error}"}
            )
            self._manager.unreadable()
        except Exception as error:
            # A fault of ours must not end the polling: the next version may be readable again.
            sentence = f"Could not read base path {base_path} of {self._manager.name}, a fault of the bridge: {error!r}"
            if self.problems.get(base_path) != sentence:
                logger.exception("reading base path %s failed", base_path)
            self._report({base_path: sentence})
            self._manager.unreadable()
        else:
            if (base_path, policy) == (self.base_path, self.policy):
                self._use(scan)
        self.looked = True
        self._on_look()

    def _use(self, scan: Scan) -> None:
        problems = {problem.path: problem.sentence for problem in scan.problems}
        picked = aspired(self._offered(scan), self.policy, self._manager.name)
        for number, sentence in enumerate(picked.warnings):
            problems[f"{self.base_path}#{number}"] = sentence
        if not scan.versions and not problems:
            problems[self.base_path] = (
                f"No versions of servable {self._manager.name} found under base path {self.base_path}. "
                "Did you forget to name your leaf directory as a number (eg. '/1/')?"
            )
        self._report(problems)
        if not picked.versions and self._keeps():
            return
        self.settled = True
        self._manager.aspire(picked.versions)

    def _keeps(self) -> bool:
        """Whether what serves stays although nothing is offered; a policy that names no version means just that."""
        return self._rules.keep_when_empty and self.policy != Specific() and bool(self._manager.ready_versions())

    def _offered(self, scan: Scan) -> Sequence[VersionDirectory]:
        """Complete versions, and those that serve already although their directory is being rewritten."""
        ready = self._manager.ready_versions()
        offered = list(scan.versions)
        for problem in scan.problems:
            version = parse_version(os.path.basename(problem.path))
            if version in ready and all(item.version != version for item in offered):
                offered.append(VersionDirectory(version, problem.path))
        return offered

    def _report(self, problems: dict[str, str]) -> None:
        for path, sentence in problems.items():
            if self.problems.get(path) != sentence:
                logger.warning("%s", sentence)
                self._on_problem(self._manager.name, path, sentence)
        for path in self.problems.keys() - problems.keys():
            self._on_problem(self._manager.name, path, None)
        self.problems = problems
