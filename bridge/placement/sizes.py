"""How large a model is expected to be."""

from __future__ import annotations

from bridge.placement.model import Loadable

ENOUGH = 10
"""So many measured models make their mean a better guess than a setting."""


class Sizes:
    """Learns from what was measured. Sizes are in bytes."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._measured: dict[tuple[str, int], int] = {}

    def measured(self, model: Loadable, size: int) -> None:
        """A copy of this registration turned out to take `size` bytes."""
        self._measured[model.key] = size

    def forget(self, model_id: str) -> None:
        for key in [key for key in self._measured if key[0] == model_id]:
            del self._measured[key]

    def expected(self, model: Loadable) -> int:
        """What was measured of it, else what its registration promises, else what models take here on average."""
        return self._measured.get(model.key) or model.predicted_size or self._average()

    def _average(self) -> int:
        if len(self._measured) < ENOUGH:
            return self._default
        return sum(self._measured.values()) // len(self._measured)
