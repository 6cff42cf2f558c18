"""Against a library of our own with NVML's functions: no GPU is needed, and none is shown to work here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from model_repo_sync.runner.tensorflow_engine.gpu_memory import GpuMemory

NVML = """
#include <string.h>
#include <unistd.h>
struct memory { unsigned long long total, free, used; };
struct process { unsigned int pid; unsigned long long used; unsigned int gpu, compute; };
static int devices[2];
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = &devices[index]; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    int index = (int *)device - devices;
    memory->total = 1000; memory->free = 400 + index; memory->used = 600 - index;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process *found) {
    struct process list[3] = {{getpid(), 70, 0, 0}, {1, 5, 0, 0}, {getpid(), ~0ull, 0, 0}};
    memcpy(found, list, sizeof list);
    *count = 3;
    return device == &devices[0] ? 0 : 999;
}
"""


def build(folder: Path, init: int) -> str:
    source, library = folder / "nvml.c", folder / "libnvml.so"
    source.write_text(NVML)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DINIT={init}", "-o", library, source], check=True)
    return str(library)


def test_all_gpus_together(tmp_path: Path) -> None:
    memory = GpuMemory(build(tmp_path, 0))
    assert memory.free() == 801
    assert memory.used_by(os.getpid()) == 70
    assert memory.used_by(2) == 0


@pytest.mark.parametrize("there", [True, False], ids=["without-driver", "without-library"])
def test_machines_without_a_gpu(tmp_path: Path, there: bool) -> None:
    memory = GpuMemory(build(tmp_path, 9) if there else "libno-such-library.so")
    assert (memory.free(), memory.used_by(os.getpid())) == (0, 0)
