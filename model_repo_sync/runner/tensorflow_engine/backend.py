"""The runner of one Triton model, put together from its parts."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import config, device, messages, op_libraries
from .batching import Batcher
from .config import RunnerConfig
from .description import Description
from .errors import PlatformError, StatusError
from .executor import Executor, RunTime
from .library import Library
from .merging import Array, Feeds, Value
from .session import Session
from .statistics import Statistics

logger = logging.getLogger(__name__)


class Backend:
    """Answers Triton's requests for one SavedModel, or for none: a probe only describes the runner."""

    def __init__(self, library: Library, session: Session | None, run_time: RunTime, settings: RunnerConfig) -> None:
        self._session = session
        self._statistics = Statistics()
        self._inputs = messages.Inputs(library, settings.inputs)
        description = Description(
            library.version, self._statistics, with_gpus=session is None or settings.device is not None
        )
        self._outputs = messages.Outputs(library, settings.outputs, description)
        self._executor: Executor | Batcher = (
            Executor(self, run_time, settings.threads, settings.queue_size)
            if settings.batching is None
            else Batcher(self, settings.batching)
        )

    @classmethod
    def load(cls, args: Mapping[str, str]) -> Backend:
        """Load the SavedModel that Triton's arguments of `initialize` name.

        Raises StatusError where TensorFlow refuses the model, PlatformError where the runner cannot work here.
        """
        require_numpy_1(np.__version__)
        settings = config.parse(args)
        device.restrict(settings.device, os.environ)
        library, run_time = Library.load(), RunTime()
        session = _session(library, settings.saved_model, settings, run_time) if settings.saved_model else None
        return cls(library, session, run_time, settings)

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """Responses in the order of `requests`, or None where threads send them."""
        return self._executor.execute(requests)

    def close(self) -> None:
        """End the threads and give the session back."""
        if not self._executor.stop():
            logger.warning("A run does not end; its session is left to the end of the process")
        elif self._session is not None:
            self._session.close()

    def answer(self, request: Any, waited: float = 0.0) -> Any:
        """The response to one request that waited some seconds. Nothing that happens to it may reach another."""
        try:
            return messages.lapsed(request, waited) or self._answer(request)
        except BaseException as failure:
            return messages.error(failure)

    def _answer(self, request: Any) -> Any:
        fetches = messages.fetches(request)
        if not fetches or self._session is None:
            return self.response(request, {})
        self._statistics.asked()
        feeds, tensors = self._inputs.read(request)
        self._statistics.ran()
        fetched = self._session.run(self._session.plan(feeds, fetches), tensors)
        return self.response(request, dict(zip(fetches, map(self._outputs.array, fetches, fetched), strict=True)))

    def read(self, request: Any) -> tuple[list[str], Feeds]:
        """What a request fetches and feeds, for a batch."""
        self._statistics.asked()
        return messages.fetches(request), self._inputs.values(request)

    def run(self, feeds: Mapping[str, Sequence[Value]], fetches: Sequence[str], rows: int) -> list[Array]:
        """Run a batch of `rows`."""
        assert self._session is not None
        tensors = [self._inputs.joined(values) for values in feeds.values()]
        self._statistics.ran(rows)
        fetched = self._session.run(self._session.plan(list(feeds), fetches), tensors)
        return list(map(self._outputs.array, fetches, fetched))

    def response(self, request: Any, outputs: Mapping[str, Array]) -> Any:
        """The response with everything that `request` asks for; `outputs` are what it fetches."""
        return self._outputs.response(list(request.requested_output_names()), outputs)

    is_immediate = staticmethod(messages.is_description)
    queue_full = staticmethod(messages.queue_full)
    error = staticmethod(messages.error)
    send = staticmethod(messages.send)


def _session(library: Library, saved_model: Path, settings: RunnerConfig, run_time: RunTime) -> Session:
    """The session of a SavedModel on the device that Triton gave it, with the custom ops that it needs."""
    op_libraries.load(library, settings.op_libraries)
    session_config = device.session_config(settings.device, settings.session_config)
    load = partial(Session.load, library, saved_model, settings.tags, session_config, observe=run_time.add)
    try:
        session = load()
    except StatusError as error:
        if not op_libraries.is_missing(error) or not op_libraries.load_tensorflow_text(library):
            raise
        session = load()
    device.require(settings.device, session.device_types(), library.version)
    return session


def require_numpy_1(version: str) -> None:
    """Refuse numpy 2: Triton's stub then sends empty outputs with status 200 and dies of strings."""
    if int(version.split(".", 1)[0]) >= 2:
        raise PlatformError(
            f"The runner needs numpy below 2 and found {version}: install 'numpy<2' for the Python of Triton's stub"
        )
