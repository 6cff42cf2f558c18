"""A loaded SavedModel: one TensorFlow session for all of its signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, c_char_p, c_void_p
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .errors import INVALID_ARGUMENT, NOT_FOUND, PlatformError, StatusError
from .feed import Feed
from .library import Library, Output, Status

if TYPE_CHECKING:
    from .compiled_run import CompiledRun, Fetched

Observer = Callable[[float], None]
"""Hears the seconds of a run."""


def _deaf(seconds: float) -> None:
    """Nobody wants to know."""


class Call:
    """Everything that one run hands to TensorFlow, made once and used again by one run after the other."""

    __slots__ = ("arguments", "fed", "fetched", "status")

    def __init__(self, library: Library, session: int, plan: Plan) -> None:
        self.status = Status(library)
        self.fed: Any = (c_void_p * len(plan.feeds))()
        self.fetched: Any = (c_void_p * len(plan.fetches))()
        self.arguments: tuple[Any, ...] = (
            *(session, None),
            *(addressof(plan.feeds), addressof(self.fed), len(self.fed)),
            *(addressof(plan.fetches), addressof(self.fetched), len(self.fetched)),
            *(None, 0, None, self.status.pointer),
        )


class Plan:
    """What is fed and fetched, resolved to operations of the graph.

    `dtypes` are TensorFlow's numbers of what is fetched. `calls` are those that no run uses now: as many as ever ran
    at once. The pointers in a call end in memory of the plan.
    """

    __slots__ = ("calls", "dtypes", "feeds", "fetches", "used")

    def __init__(self, feeds: Sequence[Output], fetches: Sequence[Output], dtypes: Sequence[int]) -> None:
        self.feeds = (Output * len(feeds))(*feeds)
        self.fetches = (Output * len(fetches))(*fetches)
        self.dtypes = tuple(dtypes)
        self.calls: list[Call] = []
        self.used = False


class Session:
    """A TF_Session with its graph. `run` may be called by many threads at once."""

    def __init__(self, library: Library, session: int, graph: int, observe: Observer) -> None:
        self._library = library
        self._session = session
        self._graph = graph
        self._observe = observe

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
        """A plan that feeds and fetches these tensors in this order. Raises StatusError as TensorFlow would."""
        fed = [self._output(name, "FeedInputs: unable to find feed output {}") for name in feeds]
        fetched = [self._output(name, "FetchOutputs node {}: not found") for name in fetches]
        return Plan(fed, fetched, [self._library.operation_output_type(output) for output in fetched])

    def run(self, plan: Plan, tensors: Sequence[int]) -> list[int]:
        """Feed `tensors` and give what is fetched, which the caller has to delete.

        Raises StatusError with TensorFlow's code and text.
        """
        call = self._call(plan)
        call.fed[:] = tensors
        start = perf_counter()
        self._library.session_run(*call.arguments)
        seconds = perf_counter() - start
        self._succeeded(plan, call, seconds)
        fetched: list[int] = call.fetched[:]
        plan.calls.append(call)
        return fetched

    def run_compiled(
        self, compiled: CompiledRun, plan: Plan, numbers: tuple[int, ...], feeds: Sequence[Feed], strings: bytes
    ) -> list[Fetched]:
        """`run` in one call, from the values of numeric feeds of the dtypes `numbers`; `strings` as in CompiledRun."""
        call = self._call(plan)
        inputs, outputs = call.arguments[2], call.arguments[5]
        _, seconds, fetched = compiled.run(self._session, call.status.pointer, inputs, numbers, feeds, outputs, strings)
        self._succeeded(plan, call, seconds)
        plan.calls.append(call)
        return fetched

    def _call(self, plan: Plan) -> Call:
        try:
            return plan.calls.pop()
        except IndexError:
            return Call(self._library, self._session, plan)

    def _succeeded(self, plan: Plan, call: Call, seconds: float) -> None:
        """Raise StatusError where it did not: the call is freed then, with its status."""
        call.status.check()
        if plan.used:
            self._observe(seconds)
        plan.used = True

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
