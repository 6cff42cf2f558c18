"""The tensorflow.ConfigProto under which a runner opens its session."""

from __future__ import annotations

from model_repo_sync.device import Device, DeviceKind
from model_repo_sync.protos.tensorflow import config_pb2

CALLER_THREAD = -1
"""inter_op_parallelism_threads that runs ops in the thread of the request: the fastest for small graphs."""


def session_config(
    device: Device,
    *,
    gpu_memory_fraction: float = 0.0,
    intra_op: int = 0,
    inter_op: int = CALLER_THREAD,
    base: bytes = b"",
) -> bytes:
    """A serialized ConfigProto: `base`, itself a serialized ConfigProto, with what it leaves unset.

    Thread counts are TensorFlow's own: 0 lets it choose. On a GPU memory grows on demand; `gpu_memory_fraction` caps it
    as a share of the device, 0 sets no cap. Which GPU it is, is Triton's to say, so the runner adds that.
    """
    config = config_pb2.ConfigProto.FromString(base)
    config.intra_op_parallelism_threads = config.intra_op_parallelism_threads or intra_op
    config.inter_op_parallelism_threads = config.inter_op_parallelism_threads or inter_op
    if device.kind is DeviceKind.GPU:
        options = config.gpu_options
        options.allow_growth = True
        options.per_process_gpu_memory_fraction = options.per_process_gpu_memory_fraction or gpu_memory_fraction
    return config.SerializeToString(deterministic=True)
