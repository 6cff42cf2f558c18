"""Where a model runs: `auto`, `cpu`, `gpu` or `gpu:N,...`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

_GPU_LIST = re.compile(r"gpu(?::([0-9]+(?:,[0-9]+)*))?")
_PROBE_SECONDS = 10


class DeviceKind(Enum):
    """`AUTO` has to be resolved before a configuration can be written."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Device:
    """A device setting. `gpus` are CUDA's device numbers, one runner on each; empty lets Triton take all."""

    kind: DeviceKind = DeviceKind.CPU
    gpus: tuple[int, ...] = ()

    def resolve(self, gpu_visible: Callable[[], bool]) -> Device:
        """AUTO becomes GPU where `gpu_visible` says so, else CPU; the others stay."""
        if self.kind is not DeviceKind.AUTO:
            return self
        return Device(DeviceKind.GPU if gpu_visible() else DeviceKind.CPU)

    def __str__(self) -> str:
        return self.kind.value + (":" + ",".join(map(str, self.gpus)) if self.gpus else "")


CPU = Device()


def parse(text: str) -> Device:
    """A device setting from its text; raises ValueError for anything but `auto|cpu|gpu[:N,...]`."""
    if text in ("auto", "cpu"):
        return Device(DeviceKind(text))
    match = _GPU_LIST.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no device; use auto, cpu, gpu or gpu:N,...")
    return Device(DeviceKind.GPU, tuple(sorted({int(gpu) for gpu in match[1].split(",")})) if match[1] else ())


def nvidia_gpu_visible() -> bool:
    """Whether `nvidia-smi` on this machine lists a GPU."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return False
    try:
        listing = subprocess.run([command, "-L"], capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0 and b"GPU " in listing.stdout
