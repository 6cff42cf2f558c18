"""GPU memory as NVIDIA's management library (NVML) tells it, which needs no CUDA context."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

LIBRARY = "libnvidia-ml.so.1"
MOST_PROCESSES = 256
_SUCCESS = 0
_NOT_AVAILABLE = 2**64 - 1


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64))


class _Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_uint64),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class GpuMemory:
    """All GPUs of the machine together. Without NVML, or where it does not tell, everything is 0."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._nvml: ctypes.CDLL | None = None
        try:
            nvml = ctypes.CDLL(library)
        except OSError:
            return
        if nvml.nvmlInit_v2() == _SUCCESS:
            self._nvml = nvml

    def free(self) -> int:
        """Bytes that nobody uses."""
        return sum(self._memory(device).free for device in self._devices())

    def used_by(self, process: int) -> int:
        """Bytes of one process. A container that has its own process numbers may hide them."""
        return sum(item.used for device in self._devices() for item in self._processes(device) if item.pid == process)

    def _devices(self) -> Iterator[ctypes.c_void_p]:
        if self._nvml is None:
            return
        count = ctypes.c_uint()
        self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            device = ctypes.c_void_p()
            if self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == _SUCCESS:
                yield device

    def _memory(self, device: ctypes.c_void_p) -> _Memory:
        assert self._nvml is not None
        memory = _Memory()
        self._nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
        return memory

    def _processes(self, device: ctypes.c_void_p) -> list[_Process]:
        assert self._nvml is not None
        count = ctypes.c_uint(MOST_PROCESSES)
        found = (_Process * MOST_PROCESSES)()
        code = self._nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), found)
        listed = found[: count.value] if code == _SUCCESS else []
        return [item for item in listed if item.used != _NOT_AVAILABLE]
