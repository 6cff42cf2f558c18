"""A loaded SavedModel: one TensorFlow session for all of its signatures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_void_p
from pathlib import Path

from .errors import INVALID_ARGUMENT, NOT_FOUND, PlatformError, StatusError
from .library import Library, Output, Status
from .tensors import TensorHandle

Observer = Callable[[float], None]
"""Hears the seconds of a run."""


def _deaf(seconds: float) -> None:
    """Nobody wants to know."""


class Plan:
    """What is fed and fetched, resolved to operations of the graph.

    The array types are kept since ctypes forgets, and then makes anew, a type that nobody holds.
    """

    __slots__ = ("feeds", "fetches", "tensors_in", "tensors_out", "used")

    def __init__(self, feeds: Sequence[Output], fetches: Sequence[Output]) -> None:
        self.feeds = (Output * len(feeds))(*feeds)
        self.fetches = (Output * len(fetches))(*fetches)
        self.tensors_in = c_void_p * len(feeds)
        self.tensors_out = c_void_p * len(fetches)
        self.used = False


class Session:
    """A TF_Session with its graph. `run` may be called by many threads at once."""

    def __init__(self, library: Library, session: int, graph: int, observe: Observer) -> None:
        self._library = library
        self._session = session
        self._graph = graph
        self._observe = observe
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], Plan] = {}

    @classmethod
    def load(
        cls,
        library: Library,
        saved_model: Path,
        tags: Sequence[str],
        session_config: bytes,
        observe: Observer = _deaf,
    ) -> Session:
        """Load the meta graph with `tags`: variables, assets and tables are ready afterwards.

        `session_config` is a serialized ConfigProto. `observe` hears the seconds of each successful run, save those
        that also built the plan's executors. Raises StatusError with TensorFlow's code and text, PlatformError where
        TensorFlow refuses the configuration.
        """
        status, options, graph = Status(library), library.new_session_options(), library.new_graph()
        try:
            _configure(library, options, session_config, status)
            session = library.load_session_from_saved_model(
                options,
                None,
                str(saved_model).encode(),
                (c_char_p * len(tags))(*[tag.encode() for tag in tags]),
                len(tags),
                graph,
                None,
                status.pointer,
            )
            status.check()
        except BaseException:
            library.delete_graph(graph)
            raise
        finally:
            library.delete_session_options(options)
        return cls(library, session, graph, observe)

    def plan(self, feeds: Sequence[str], fetches: Sequence[str]) -> Plan:
        """The plan that feeds and fetches these tensors in this order, made once."""
        key = (tuple(feeds), tuple(fetches))
        plan = self._plans.get(key)
        if plan is None:
            plan = Plan(
                [self._output(name, "FeedInputs: unable to find feed output {}") for name in feeds],
                [self._output(name, "FetchOutputs node {}: not found") for name in fetches],
            )
            self._plans[key] = plan
        return plan

    def run(self, plan: Plan, tensors: Sequence[TensorHandle]) -> list[TensorHandle]:
        """Feed `tensors` and give what is fetched. Raises StatusError with TensorFlow's code and text."""
        library, status = self._library, Status(self._library)
        fed = plan.tensors_in(*[tensor.pointer for tensor in tensors])
        fetched = plan.tensors_out()
        start = time.perf_counter()
        library.session_run(
            self._session,
            None,
            *(plan.feeds, fed, len(fed)),
            *(plan.fetches, fetched, len(fetched)),
            *(None, 0, None, status.pointer),
        )
        seconds = time.perf_counter() - start
        status.check()
        if plan.used:
            self._observe(seconds)
        plan.used = True
        return [TensorHandle(library, pointer) for pointer in fetched if pointer]

    def device_types(self) -> list[str]:
        """The types of the devices of this session, such as `CPU` and `GPU`."""
        library, status = self._library, Status(self._library)
        devices = library.session_list_devices(self._session, status.pointer)
        status.check()
        try:
            count = library.device_list_count(devices)
            return [library.device_list_type(devices, index, status.pointer).decode() for index in range(count)]
        finally:
            library.delete_device_list(devices)

    def close(self) -> None:
        """Give everything back. No run may be going on, and none may follow."""
        status = Status(self._library)
        self._library.close_session(self._session, status.pointer)
        self._library.delete_session(self._session, status.pointer)
        self._library.delete_graph(self._graph)
        status.check()

    def _output(self, tensor: str, unknown: str) -> Output:
        """Resolve `op:index`; `unknown` is the sentence in which TensorFlow says that it cannot."""
        operation_name, _, index = tensor.partition(":")
        output = Output(self._library.graph_operation_by_name(self._graph, operation_name.encode()), int(index or 0))
        if output.operation is None:
            raise StatusError(NOT_FOUND, unknown.format(tensor))
        # TF_SessionRun does not check the index.
        if output.index >= self._library.operation_num_outputs(output.operation):
            raise StatusError(INVALID_ARGUMENT, f"Tensor {tensor} is beyond the outputs of its operation")
        return output


def _configure(library: Library, options: int, session_config: bytes, status: Status) -> None:
    library.set_config(options, session_config, len(session_config), status.pointer)
    try:
        status.check()
    except StatusError as error:
        raise PlatformError(f"TensorFlow refuses the parameter session_config: {error.text}") from error
