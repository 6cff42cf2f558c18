"""A SavedModel in this process: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from . import device, dtypes, op_libraries
from .compiled_run import CompiledRun
from .config import RunnerConfig
from .dtypes import DTYPES, DType
from .errors import INTERNAL, UNIMPLEMENTED, StatusError
from .feed import Array, Feed
from .library import Library
from .native import RUN
from .session import Observer, Plan, Session
from .tensors import TensorMaker, TensorReader


class _Prepared(NamedTuple):
    """`numbers` are the dtypes of what is fed, `strings` is 1 for each fetch of strings; `compiled` can run it."""

    plan: Plan
    dtypes: tuple[DType, ...]
    numbers: tuple[int, ...]
    strings: bytes
    compiled: CompiledRun | None


class SavedModel:
    """One session for all signatures. `run` may be called by many threads at once."""

    def __init__(self, library: Library, session: Session, outputs: Mapping[str, int]) -> None:
        """`outputs` are the dtypes of what may be fetched, as Triton was told them."""
        self._session = session
        self._outputs = outputs
        self._delete = library.delete_tensor
        self._maker = TensorMaker(library)
        self._reader = TensorReader(library)
        self._compiled = CompiledRun(library, RUN) if RUN is not None else None
        self._prepared: dict[tuple[tuple[str, ...], tuple[str, ...]], _Prepared] = {}

    @classmethod
    def load(cls, library: Library, settings: RunnerConfig, observe: Observer) -> SavedModel:
        """Load the SavedModel of `settings` on the device that Triton gave it, with the custom ops that it needs.

        `observe` hears the seconds of each run. Raises StatusError where TensorFlow refuses it, PlatformError where
        the runner cannot work here.
        """
        assert settings.saved_model is not None
        op_libraries.load(library, settings.op_libraries)
        config = device.session_config(settings.device, settings.session_config)
        load = partial(Session.load, library, settings.saved_model, settings.tags, config, observe=observe)
        try:
            session = load()
        except StatusError as error:
            if not op_libraries.is_missing(error) or not op_libraries.load_tensorflow_text(library):
                raise
            session = load()
        device.require(settings.device, session.device_types(), library.version)
        library.drop_pages()
        return cls(library, session, settings.outputs)

    def run(self, feeds: Sequence[Feed], fetches: Sequence[str]) -> list[Array]:
        """What is fetched, in wire form and in the order of `fetches`.

        Raises StatusError with TensorFlow's code and text, or where an output is not of the dtype that Triton was told.
        """
        key = (tuple([feed.name for feed in feeds]), tuple(fetches))
        plan, dtypes, numbers, strings, compiled = self._prepared.get(key) or self._prepare(key, feeds)
        if compiled is not None:
            fetched = self._session.run_compiled(compiled, plan, numbers, feeds, strings)
            return list(map(self._reader.fetched, dtypes, fetched))
        return list(map(self._reader.array, dtypes, self._run(plan, feeds)))

    def _run(self, plan: Plan, feeds: Sequence[Feed]) -> list[int]:
        tensors: list[int] = []
        try:
            for feed in feeds:
                tensors.append(self._maker.tensor(feed))
            return self._session.run(plan, tensors)
        finally:
            for tensor in tensors:
                self._delete(tensor)

    def close(self) -> None:
        """Give the session back. No run may be going on, and none may follow."""
        self._prepared.clear()
        self._session.close()

    def _prepare(self, key: tuple[tuple[str, ...], tuple[str, ...]], feeds: Sequence[Feed]) -> _Prepared:
        plan = self._session.plan(*key)
        fetched = tuple(map(self._dtype, key[1], plan.dtypes))
        fed = [feed.dtype for feed in feeds]
        compiled = None if any(dtype.is_string for dtype in fed) else self._compiled
        strings = bytes([dtype.is_string for dtype in fetched])
        prepared = _Prepared(plan, fetched, tuple([dtype.number for dtype in fed]), strings, compiled)
        self._prepared[key] = prepared
        return prepared

    def _dtype(self, name: str, number: int) -> DType:
        number = dtypes.base(number)
        dtype = DTYPES.get(number)
        if dtype is None:
            raise StatusError(UNIMPLEMENTED, f"Output {name} is of type {dtypes.name(number)}, which cannot be served")
        if number != self._outputs[name]:
            # Triton would label the bytes with the configured type and say nothing.
            configured = dtypes.name(self._outputs[name])
            raise StatusError(INTERNAL, f"Output {name} is configured as {configured} but is {dtype.name}")
        return dtype
