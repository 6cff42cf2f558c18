"""How requests are merged into batches: TF Serving's BatchingParameters, as a parameter of the model configuration."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class BatchingParameters:
    """The fields of tensorflow.serving.BatchingParameters with the defaults of TF Serving's scheduler.

    Sizes count rows, the elements of dimension 0. `num_batch_threads` of 0 means one for each CPU. Without splitting
    `max_execution_batch_size` has no effect. `isolate_failures` runs the members of a batch that TensorFlow rejected
    one by one, which only a graph without state allows.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = 0
    thread_pool_name: str = "batch_threads"
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: bool = False
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 0
    isolate_failures: bool = False

    @property
    def execution_limit(self) -> int:
        """The most rows of one batch."""
        return self.max_execution_batch_size if self.enable_large_batch_splitting else self.max_batch_size

    def padded_size(self, rows: int) -> int:
        """The rows with which a batch of `rows` runs: the first allowed size that holds them, else `rows`."""
        if not rows:
            return 0
        return next((size for size in self.allowed_batch_sizes if size >= rows), rows)

    def dumps(self) -> str:
        """The parameters as JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def loads(cls, text: str) -> Self:
        """The inverse of `dumps`. Raises ValueError."""
        fields: Any = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"the parameter batching is not a JSON object: {text!r}")
        unknown = sorted(fields.keys() - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise ValueError(f"the parameter batching has the unknown field {', '.join(unknown)}")
        fields["allowed_batch_sizes"] = tuple(fields.get("allowed_batch_sizes", ()))
        return cls(**fields)
