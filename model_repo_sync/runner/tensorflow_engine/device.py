"""Which GPU TensorFlow may see; decided before its libraries are loaded, since they read the environment once."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

from .errors import PlatformError

VISIBLE = "CUDA_VISIBLE_DEVICES"

NO_GPU = bytes.fromhex("0a070a034750551000")
"""ConfigProto with device_count {"GPU": 0}; added to another one's bytes it overrides that entry only."""


def restrict(device: int | None, environment: MutableMapping[str, str]) -> None:
    """Leave TensorFlow only the GPU that Triton numbers `device`, or none.

    Triton counts the devices that its own CUDA_VISIBLE_DEVICES leaves, which may be numbers or UUIDs.
    """
    if device is None:
        environment[VISIBLE] = "-1"
        return
    visible = [entry.strip() for entry in environment.get(VISIBLE, "").split(",") if entry.strip()]
    if visible and device >= len(visible):
        raise PlatformError(f"Triton placed this model on GPU {device}, but {VISIBLE} is {environment[VISIBLE]}")
    environment[VISIBLE] = visible[device] if visible else str(device)


def session_config(device: int | None, given: bytes) -> bytes:
    """The serialized ConfigProto of the session: on the CPU TensorFlow does not even look for a GPU's driver."""
    return given + NO_GPU if device is None else given


def require(device: int | None, device_types: Iterable[str], tensorflow_version: str) -> None:
    """Refuse to serve on the CPU what Triton placed on a GPU."""
    if device is not None and "GPU" not in device_types:
        raise PlatformError(
            f"Triton placed this model on GPU {device}, but TensorFlow {tensorflow_version} finds no GPU it can use: "
            "install tensorflow[and-cuda] for the Python of Triton's stub, or serve with --device=cpu"
        )
