"""Where the embedded Triton can run, and what is said where it cannot."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import Code
from bridge.triton.wheel import EmbeddedUnavailable, Host, locate

FILES = (
    "bin/tritonserver",
    "backends/python/libtriton_python.so",
    "backends/python/triton_python_backend_utils.py",
    "python_backend_stubs/3.11/triton_python_backend_stub",
    "python_backend_stubs/3.12/triton_python_backend_stub",
)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host on which everything is right."""
    for name in FILES:
        path = tmp_path / "pytriton" / "tritonserver" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    executable = tmp_path / "bin" / "python"
    executable.parent.mkdir()
    executable.touch()
    executable.with_name("python3").symlink_to("python")
    return Host(
        system="Linux",
        machine="x86_64",
        glibc="2.36",
        python=(3, 11),
        executable=executable,
        numpy="1.26.4",
        pytriton=tmp_path / "pytriton",
        tensorflow=tmp_path / "tensorflow",
    )


@pytest.mark.parametrize(
    "facts", [{}, {"python": (3, 12)}, {"machine": "aarch64"}, {"glibc": "2.35"}, {"numpy": "1.26.0rc1"}]
)
def test_a_right_host_is_accepted(host: Host, facts: dict[str, Any]) -> None:
    fitting = dataclasses.replace(host, **facts)
    wheel = locate(fitting)
    assert wheel.tritonserver.is_file()
    assert wheel.stub.parent.name == ".".join(map(str, fitting.python))


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            {"system": "Darwin", "machine": "arm64"},
            r"Linux on x86_64 or aarch64 and this is Darwin on arm64; .*triton_url",
        ),
        ({"machine": "ppc64le"}, r"this is Linux on ppc64le; .*--triton_url"),
        ({"glibc": "2.31"}, r"needs glibc 2\.35 or newer and this system has glibc 2\.31; .*--triton_url"),
        ({"glibc": ""}, r"this system has another C library; .*--triton_url"),
        ({"python": (3, 10)}, r"needs Python 3\.11 or 3\.12 and this is Python 3\.10; .*pip install"),
        ({"python": (3, 13)}, r"needs Python 3\.11 or 3\.12 and this is Python 3\.13; .*pip install"),
        ({"numpy": "2.0.0"}, r"numpy 2\.0\.0 is installed; run pip install 'triton-bridge\[embedded\]'"),
        ({"numpy": "2.1rc1"}, r"numpy 2\.1rc1 is installed; run pip install"),
        ({"numpy": None}, r"needs numpy, which is not installed; run pip install"),
        ({"pytriton": None}, r"not installed; install it with pip install 'triton-bridge\[embedded\]', or name a"),
        ({"tensorflow": None}, r"TensorFlow, which is not installed; install it with pip install"),
    ],
)
def test_a_host_that_cannot_run_it_is_told_the_cure(host: Host, facts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EmbeddedUnavailable, match=sentence) as raised:
        locate(dataclasses.replace(host, **facts))
    assert raised.value.code is Code.FAILED_PRECONDITION
    assert "\n" not in raised.value.message


def test_a_python3_of_another_interpreter_is_refused(host: Host) -> None:
    host.executable.with_name("python3").unlink()
    host.executable.with_name("python3").touch()
    with pytest.raises(EmbeddedUnavailable, match="looks for its interpreter"):
        locate(host)


@pytest.mark.parametrize("name", FILES[:4])
def test_a_damaged_wheel_is_named(host: Host, name: str) -> None:
    assert host.pytriton is not None
    (host.pytriton / "tritonserver" / name).unlink()
    with pytest.raises(EmbeddedUnavailable, match=f"has no '.*{name}'; reinstall"):
        locate(host)


def test_the_current_host_is_described_without_imports() -> None:
    host = Host.current()
    assert host.system == "Linux"
    assert host.executable.is_file()
    assert host.numpy is not None
