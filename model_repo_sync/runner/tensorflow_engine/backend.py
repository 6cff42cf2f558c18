"""The runner of one Triton model, put together from its parts."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import config, device, messages
from .config import RunnerConfig
from .description import Description
from .errors import PlatformError
from .executor import Executor, RunTime
from .library import Library
from .session import Session

logger = logging.getLogger(__name__)


class Backend:
    """Answers Triton's requests for one SavedModel, or for none: a probe only describes the runner."""

    def __init__(self, library: Library, session: Session | None, run_time: RunTime, settings: RunnerConfig) -> None:
        self._session = session
        self._inputs = messages.Inputs(library, settings.inputs)
        self._outputs = messages.Outputs(library, settings.outputs, Description(library.version))
        self._executor = Executor(self, run_time, settings.threads, settings.queue_size)

    @classmethod
    def load(cls, args: Mapping[str, str]) -> Backend:
        """Load the SavedModel that Triton's arguments of `initialize` name.

        Raises StatusError where TensorFlow refuses the model, PlatformError where the runner cannot work here.
        """
        require_numpy_1(np.__version__)
        settings = config.parse(args)
        device.restrict(settings.device, os.environ)
        library, run_time, session = Library.load(), RunTime(), None
        if settings.saved_model is not None:
            session_config = device.session_config(settings.device, settings.session_config)
            session = Session.load(library, settings.saved_model, settings.tags, session_config, observe=run_time.add)
            device.require(settings.device, session.device_types(), library.version)
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
        names = list(request.requested_output_names())
        fetches = [name for name in names if name != messages.DESCRIPTION_OUTPUT]
        if not fetches or self._session is None:
            return self._outputs.response(names, {})
        feeds, tensors = self._inputs.read(request)
        fetched = self._session.run(self._session.plan(feeds, fetches), tensors)
        return self._outputs.response(names, dict(zip(fetches, fetched, strict=True)))

    is_immediate = staticmethod(messages.is_description)
    queue_full = staticmethod(messages.queue_full)
    send = staticmethod(messages.send)


def require_numpy_1(version: str) -> None:
    """Refuse numpy 2: Triton's stub then sends empty outputs with status 200 and dies of strings."""
    if int(version.split(".", 1)[0]) >= 2:
        raise PlatformError(
            f"The runner needs numpy below 2 and found {version}: install 'numpy<2' for the Python of Triton's stub"
        )
