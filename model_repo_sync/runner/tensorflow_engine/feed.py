"""A tensor on its way into a session, as Triton's stub and the engine's own processes hold it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .dtypes import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    # numpy.typing takes a tenth of the time in which numpy itself is imported.
    Array = np.ndarray


class Feed(NamedTuple):
    """The value of the graph tensor `name`.

    `shape` is what TensorFlow sees. `arrays` hold its elements in wire form (dtype.numpy), one after the other, each
    contiguous and of whatever shape: a request's tensor is one flat array, a batch has one per request.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    arrays: Sequence[Array]


def merged(name: str, dtype: DType, arrays: Sequence[Array]) -> Feed:
    """The rows of all `arrays`, which are in wire form and equal in their other dimensions."""
    first = arrays[0].shape[1:]
    shape = (sum([len(array) for array in arrays]), *(first if dtype.multiplicity == 1 else first[:-1]))
    return Feed(name, dtype, shape, [np.ascontiguousarray(array) for array in arrays])
