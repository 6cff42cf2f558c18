"""What the outputs of a model will take, from what they took before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.triton.calls import ModelCall, WireTensor
from bridge.triton.outputs import ITEM_BYTES, byte_size

MOST = 1024
"""Calls that are told apart."""

_Key = tuple[str, tuple[str, ...], tuple[tuple[int, ...], ...], str]


class OutputSizes:
    """Sizes of outputs of at least `large` bytes, by model, asked outputs and shapes of the inputs.

    Strings are left out: an answer in shared memory does not say how many bytes they have.
    """

    def __init__(self, large: int) -> None:
        self.large = large
        self._sizes: dict[_Key, Mapping[str, int]] = {}
        self._models: set[str] = set()

    def knows(self, model: str) -> bool:
        """Whether a call of `model` may have large outputs."""
        return model in self._models

    def expected(self, call: ModelCall) -> Mapping[str, int]:
        """Bytes of each large output of `call`, with some to spare; empty where nothing is known."""
        sizes = self._sizes.get(_key(call))
        return {name: size + size // 8 for name, size in sizes.items()} if sizes else {}

    def learn(self, call: ModelCall, outputs: Sequence[WireTensor]) -> None:
        """`call` was answered so."""
        key = _key(call)
        known = self._sizes.get(key)
        if known is not None and not known:
            return
        sizes = {tensor.name: byte_size(tensor.data) for tensor in outputs if tensor.datatype in ITEM_BYTES}
        large = {name: size for name, size in sizes.items() if size >= self.large}
        if large:
            self._put(key, large)
        elif known is not None:
            del self._sizes[key]

    def distrust(self, call: ModelCall) -> None:
        """The outputs of such calls are once larger and once smaller: expect nothing of them any more."""
        self._put(_key(call), {})

    def _put(self, key: _Key, sizes: Mapping[str, int]) -> None:
        if len(self._sizes) >= MOST and key not in self._sizes:
            self._sizes.clear()
            self._models.clear()
        self._sizes[key] = sizes
        self._models.add(key[0])


def _key(call: ModelCall) -> _Key:
    shapes = tuple([tensor.shape for tensor in call.inputs])
    return call.model, tuple(call.outputs), shapes, call.parameters.get("shapes", "")
