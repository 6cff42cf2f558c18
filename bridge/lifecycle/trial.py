"""New models that a reload tries out before the configuration changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.errors import BridgeError, Code
from bridge.lifecycle.control_plane import ControlPlane
from bridge.registry.records import ModelSpec


class Trial:
    """Loads models that are not configured yet. `keep` or `cancel` ends it."""

    def __init__(self, plane: ControlPlane, models: Sequence[ModelSpec]) -> None:
        self._plane = plane
        self._models = models
        self._failures: Mapping[str, BridgeError] = {}

    async def run(self, patience: float | None) -> None:
        """Wait until every model serves, at most `patience` seconds, for ever with None.

        Raises BridgeError UNKNOWN with TF Serving's sentence (server_core.cc) that names each model that does not.
        """
        self._plane.begin_trial(self._models)
        try:
            async with asyncio.timeout(patience):
                await self._decided()
        except TimeoutError:
            late = BridgeError(f"not loaded within {patience:.3g} s", Code.DEADLINE_EXCEEDED)
            self._failures = self._judge(late)
        if self._failures:
            raise BridgeError(self._sentence(), Code.UNKNOWN)

    def keep(self) -> None:
        """The configuration was applied: the models are like all others."""
        self._plane.end_trial()

    def cancel(self, reason: BaseException) -> None:
        """Stop the loads and unload what serves already; versions stay listed as END with their error."""
        default = (
            reason if isinstance(reason, BridgeError) else BridgeError("Loading of servable cancelled", Code.CANCELLED)
        )
        for model in self._models:
            self._plane.abandon(model.name, self._failures.get(model.name, default))
        self._plane.end_trial()

    async def _decided(self) -> None:
        while True:
            progress = self._plane.progress()
            verdicts = [self._plane.verdict(model.name) for model in self._models]
            if all(verdict is not None for verdict in verdicts):
                self._failures = self._judge(None)
                return
            await progress.wait()

    def _judge(self, undecided: BridgeError | None) -> Mapping[str, BridgeError]:
        """The error of each model that does not serve; `undecided` is that of one without a failed try."""
        failures = {}
        for model in self._models:
            verdict = self._plane.verdict(model.name)
            if verdict is None and undecided is not None:
                verdict = self._plane.last_error(model.name) or undecided
            if verdict is not None and verdict.code is not Code.OK:
                failures[model.name] = verdict
        return failures

    def _sentence(self) -> str:
        reasons = "".join(
            f"{{{{name: {name} version: {self._plane.highest_version(name)}}} due to error: "
            f"{error.code.name}: {error.message}}}, "
            for name, error in self._failures.items()
        )
        return f"{len(self._failures)} model(s) did not become available: {{{reasons}}}"
