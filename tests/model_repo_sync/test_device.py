from __future__ import annotations

from pathlib import Path

import pytest

from model_repo_sync import device
from model_repo_sync.device import Device, DeviceKind

AUTO = Device(DeviceKind.AUTO)
GPU = Device(DeviceKind.GPU)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("auto", AUTO),
        ("cpu", device.CPU),
        ("gpu", GPU),
        ("gpu:0", Device(DeviceKind.GPU, (0,))),
        ("gpu:0,3", Device(DeviceKind.GPU, (0, 3))),
    ],
)
def test_device_settings(text: str, parsed: Device) -> None:
    assert device.parse(text) == parsed
    assert str(parsed) == text


def test_gpus_are_sorted_and_distinct() -> None:
    assert device.parse("gpu:2,0,2").gpus == (0, 2)


@pytest.mark.parametrize("text", ["", "GPU", "gpu:", "gpu:-1", "gpu:0,", "gpu:a", "cpu:0", "tpu"])
def test_what_is_no_device(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no device"):
        device.parse(text)


@pytest.mark.parametrize(
    ("setting", "visible", "resolved"),
    [(AUTO, True, GPU), (AUTO, False, device.CPU), (device.CPU, True, device.CPU), (GPU, False, GPU)],
)
def test_auto_is_resolved_by_what_is_visible(setting: Device, visible: bool, resolved: Device) -> None:
    assert setting.resolve(lambda: visible) == resolved


@pytest.mark.parametrize(
    ("script", "visible"),
    [
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'", True),
        ("echo 'No devices were found'; exit 6", False),
        ("true", False),
        (None, False),
    ],
)
def test_nvidia_smi_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, visible: bool
) -> None:
    if script is not None:
        command = tmp_path / "nvidia-smi"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert device.nvidia_gpu_visible() is visible
