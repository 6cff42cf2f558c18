"""The runner of one Triton model, put together from its parts."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from . import config, device, messages
from .batching import Batcher
from .config import RunnerConfig
from .description import Description, Elsewhere
from .errors import PlatformError
from .executor import Executor, RunTime
from .feed import Array, Feed, merged
from .merging import Feeds, Value
from .statistics import Statistics

logger = logging.getLogger(__name__)


class Model(Protocol):
    """A loaded SavedModel, wherever it is."""

    def run(self, feeds: Sequence[Feed], fetches: Sequence[str]) -> list[Array]:
        """What is fetched, in wire form and in the order of `fetches`. Raises StatusError."""
        ...

    def close(self) -> None:
        """Give it back. No run may be going on, and none may follow."""
        ...


class Backend:
    """Answers Triton's requests for one SavedModel, or for none: a probe only describes the runner."""

    def __init__(
        self,
        model: Model | None,
        run_time: RunTime,
        settings: RunnerConfig,
        description: Description,
        counts: Statistics,
    ) -> None:
        self._model = model
        self._statistics = counts
        self._inputs = messages.Inputs(settings.inputs)
        self._outputs = messages.Outputs(settings.outputs, description)
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
        return _shared(settings) if settings.shared and settings.saved_model else _own(settings)

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """Responses in the order of `requests`, or None where threads send them."""
        return self._executor.execute(requests)

    def close(self) -> None:
        """End the threads and give the model back."""
        if not self._executor.stop():
            logger.warning("A run does not end; its session is left to the end of the process")
        elif self._model is not None:
            self._model.close()

    def answer(self, request: Any, waited: float = 0.0) -> Any:
        """The response to one request that waited some seconds. Nothing that happens to it may reach another."""
        try:
            return (waited and messages.lapsed(request, waited)) or self._answer(request)
        except BaseException as failure:
            return messages.error(failure)

    def _answer(self, request: Any) -> Any:
        names = messages.requested(request)
        fetches = messages.fetches(names)
        if not fetches or self._model is None:
            return self._outputs.response(names, {})
        self._statistics.ran()
        arrays = self._model.run(self._inputs.read(request), fetches)
        if len(arrays) == len(names):
            return self._outputs.fetched(fetches, arrays)
        return self._outputs.response(names, dict(zip(fetches, arrays, strict=True)))

    def read(self, request: Any) -> tuple[list[str], Feeds]:
        """What a request fetches and feeds, for a batch."""
        self._statistics.asked()
        return messages.fetches(messages.requested(request)), self._inputs.values(request)

    def run(self, feeds: Mapping[str, Sequence[Value]], fetches: Sequence[str], rows: int) -> list[Array]:
        """Run a batch of `rows`."""
        assert self._model is not None
        joined = [merged(name, values[0].dtype, [value.array for value in values]) for name, values in feeds.items()]
        self._statistics.ran_batch(rows)
        return self._model.run(joined, fetches)

    def response(self, request: Any, outputs: Mapping[str, Array]) -> Any:
        """The response with everything that `request` asks for; `outputs` are what it fetches."""
        return self._outputs.response(messages.requested(request), outputs)

    is_immediate = staticmethod(messages.is_description)
    queue_full = staticmethod(messages.queue_full)
    error = staticmethod(messages.error)
    send = staticmethod(messages.send)


def _own(settings: RunnerConfig) -> Backend:
    """A runner with TensorFlow in its own process."""
    # Here, as below: a process imports only what its mode needs, which is memory and time of every version.
    from .library import Library
    from .saved_model import SavedModel

    device.restrict(settings.device, os.environ)
    library, run_time, statistics = Library.load(), RunTime(), Statistics()
    model = SavedModel.load(library, settings, run_time.add) if settings.saved_model else None
    with_gpus = model is None or settings.device is not None
    description = Description(library.version, statistics, with_gpus=with_gpus)
    return Backend(model, run_time, settings, description, statistics)


def _shared(settings: RunnerConfig) -> Backend:
    """A runner whose SavedModel is in the engine process of its device."""
    from .remote_model import RemoteModel

    run_time, statistics = RunTime(), Statistics()
    model = RemoteModel.load(settings, run_time.add)
    elsewhere = Elsewhere(model.memory_bytes, model.device_bytes)
    with_gpus = settings.device is not None
    description = Description(model.tensorflow_version, statistics, with_gpus=with_gpus, elsewhere=elsewhere)
    return Backend(model, run_time, settings, description, statistics)


def require_numpy_1(version: str) -> None:
    """Refuse numpy 2: Triton's stub then sends empty outputs with status 200 and dies of strings."""
    if int(version.split(".", 1)[0]) >= 2:
        raise PlatformError(
            f"The runner needs numpy below 2 and found {version}: install 'numpy<2' for the Python of Triton's stub"
        )
