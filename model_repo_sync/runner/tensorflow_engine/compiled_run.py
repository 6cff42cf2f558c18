"""TensorFlow's functions at the hands of the compiled part of the runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, c_void_p, cast
from typing import Any

from .feed import Feed
from .library import Library
from .tensors import SMALL

Fetched = int | tuple[tuple[int, ...], bytes]
"""A TF_Tensor that the caller has to delete, or shape and content of a small one of numbers."""


class CompiledRun:
    """Runs sessions whose feeds are numbers."""

    def __init__(self, library: Library, function: Callable[..., tuple[int, float, list[Fetched]]]) -> None:
        self._function = function
        functions: Sequence[Any] = (
            library.allocate_tensor,
            library.tensor_data,
            library.delete_tensor,
            library.num_dims,
            library.dim,
            library.tensor_byte_size,
            library.get_code,
            library.session_run,
        )
        self._table = (c_void_p * len(functions))(*[cast(one, c_void_p) for one in functions])
        self._address = addressof(self._table)

    def run(
        self,
        session: int,
        status: int,
        inputs: int,
        numbers: tuple[int, ...],
        feeds: Sequence[Feed],
        outputs: int,
        strings: bytes,
    ) -> tuple[int, float, list[Fetched]]:
        """Code of the status, seconds in TensorFlow, and what was fetched where the code is 0.

        `inputs` and `outputs` are addresses of a TF_Output for each of `numbers`, the dtypes of the feeds, and of
        `strings`, which are 1 for an output of strings.
        """
        return self._function(self._address, session, status, inputs, numbers, feeds, outputs, strings, SMALL)
