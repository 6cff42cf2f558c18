"""What ModelMesh asks a runtime at its start, and what it refuses to start with."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.errors import FailedPrecondition, InvalidArgument

MEBIBYTE = 1024 * 1024
SMALLEST_MODEL = 8192
"""Bytes; ModelMesh counts in units of this size."""
SHORTEST_LOAD_MS = 100


@dataclass(frozen=True)
class Parameters:
    """What ModelMesh is told. `default_size` is in bytes; `max_concurrency` is per model, 0 for no limit."""

    default_size: int
    load_concurrency: int
    load_timeout_ms: int
    max_concurrency: int = 0
    allow_any_method: bool = False

    def check(self) -> None:
        """Refuse what ModelMesh would refuse after it connected. Raises InvalidArgument."""
        if self.default_size < SMALLEST_MODEL:
            raise InvalidArgument(
                f"--modelmesh_default_model_bytes={self.default_size} is less than ModelMesh's unit of {SMALLEST_MODEL}"
            )
        if self.load_timeout_ms < SHORTEST_LOAD_MS:
            raise InvalidArgument("--model_load_timeout_seconds has to be at least 1")
        if self.max_concurrency < 0:
            raise InvalidArgument(f"--max_concurrency={self.max_concurrency} is negative; 0 is no limit")

    def check_capacity(self, capacity: int) -> None:
        """ModelMesh does not start with less bytes than this. Raises FailedPrecondition."""
        least = max(2 * self.default_size, min(512 * MEBIBYTE, 10 * self.default_size))
        if capacity < least:
            raise FailedPrecondition(
                f"A capacity of {capacity} bytes is too small for models of {self.default_size} bytes: ModelMesh wants "
                f"at least {least}; see --triton_capacity_bytes and --modelmesh_default_model_bytes"
            )
