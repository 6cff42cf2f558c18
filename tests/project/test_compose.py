"""compose.yaml and the Dockerfiles name only what the code has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest
import yaml

from bridge.cli.serve import serve
from bridge.console.admin import admin_app
from bridge.settings import SETTINGS, Settings, build
from bridge.triton import backends
from bridge.triton.wheel import Host, locate

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("cpu", "gpu")
PORTS = {"port": 8500, "rest_api_port": 8501, "admin_port": 8502}
PROBED_FLAGS = ("--model-control-mode=explicit", "--strict-readiness=false", "--disable-auto-complete-config")
VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return content


@pytest.fixture(scope="module")
def settings(compose: dict[str, Any]) -> Settings:
    """What `bridge serve` makes of the container's command and environment."""
    command = dockerfile("bridge")["CMD"][0]
    arguments = yaml.safe_load(command)
    assert arguments[0] == "serve"
    environment = {
        name: VARIABLE.sub(r"\1", value) for name, value in compose["services"]["bridge"]["environment"].items()
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        context = serve.make_context("serve", arguments[1:])
    return build({name: value for name, value in context.params.items() if value not in (None, ())})


def dockerfile(name: str) -> dict[str, list[str]]:
    """The arguments of each instruction, continuation lines joined."""
    text = (ROOT / "deploy" / name / "Dockerfile").read_text().replace("\\\n", " ")
    instructions: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            instruction, _, arguments = line.partition(" ")
            instructions.setdefault(instruction, []).append(arguments.strip())
    return instructions


def triton(compose: dict[str, Any], profile: str) -> dict[str, Any]:
    service: dict[str, Any] = compose["services"][f"triton-{profile}"]
    return service


def flag(service: dict[str, Any], name: str) -> str:
    (value,) = [item.partition("=")[2] for item in service["command"] if item.startswith(f"--{name}=")]
    return str(value)


def test_each_profile_has_one_bridge_one_database_and_one_triton(compose: dict[str, Any]) -> None:
    for profile in PROFILES:
        names = {name for name, service in compose["services"].items() if profile in service["profiles"]}
        assert names == {"bridge", "postgres", f"triton-{profile}"}


def test_every_bridge_variable_is_a_setting(compose: dict[str, Any]) -> None:
    named = {name for name in compose["services"]["bridge"]["environment"] if name.startswith("BRIDGE_")}
    assert named <= {setting.variable for setting in SETTINGS}


def test_bridge_listens_where_compose_publishes(compose: dict[str, Any], settings: Settings) -> None:
    published = compose["services"]["bridge"]["ports"]
    assert {name: getattr(settings, name) for name in PORTS} == PORTS
    assert published == ["8500:8500", "8501:8501", "127.0.0.1:8502:8502"]
    assert settings.admin_address == "0.0.0.0"
    assert dockerfile("bridge")["EXPOSE"] == ["8500 8501 8502"]


def test_bridge_reaches_triton(compose: dict[str, Any], settings: Settings) -> None:
    for profile in PROFILES:
        service = triton(compose, profile)
        (name,) = service["networks"]["default"]["aliases"]
        assert settings.triton_url == (f"{name}:{flag(service, 'grpc-port')}",)
        assert settings.triton_http_url == (f"{name}:{flag(service, 'http-port')}",)


def test_triton_is_not_published(compose: dict[str, Any]) -> None:
    for profile in PROFILES:
        assert "ports" not in triton(compose, profile)


def test_repository_is_one_volume_at_one_path(compose: dict[str, Any], settings: Settings) -> None:
    (path,) = settings.triton_repository
    assert f"repository:{path}" in compose["services"]["bridge"]["volumes"]
    for profile in PROFILES:
        service = triton(compose, profile)
        assert service["volumes"] == [f"repository:{path}"]
        assert flag(service, "model-repository") == path
        assert service["user"] == compose["services"]["bridge"]["user"]


def test_model_and_state_directories_are_mounted(compose: dict[str, Any], settings: Settings) -> None:
    volumes = compose["services"]["bridge"]["volumes"]
    assert f"state:{settings.state_dir}" in volumes
    source, target, mode = VARIABLE.sub(r"\1", volumes[0]).split(":")
    assert mode == "ro"
    assert settings.model_base_path == f"{target}/{settings.model_name}"
    assert (ROOT / source / settings.model_name).is_dir()


def test_every_service_has_a_health_check_and_triton_shared_memory(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["healthcheck"]["test"][0] == "CMD"
    assert {triton(compose, profile)["shm_size"] for profile in PROFILES} == {"1gb"}


def test_health_check_asks_a_page_of_the_admin_port(compose: dict[str, Any]) -> None:
    check = " ".join(compose["services"]["bridge"]["healthcheck"]["test"])
    found = re.search(r"http://localhost:(\d+)(/\w+)", check)
    assert found is not None
    app = admin_app(*[Mock()] * 5, local_only=False)
    assert int(found[1]) == PORTS["admin_port"]
    assert found[2] in {getattr(route, "path", "") for route in app.routes}


def test_stopping_takes_longer_than_draining(compose: dict[str, Any], settings: Settings) -> None:
    grace = compose["services"]["bridge"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > settings.drain_seconds


@pytest.mark.parametrize("profile", PROFILES)
def test_triton_runs_with_the_flags_that_the_bridge_probes_for(compose: dict[str, Any], profile: str) -> None:
    assert set(PROBED_FLAGS) <= set(triton(compose, profile)["command"])


@pytest.mark.integration
def test_tritonserver_knows_every_flag(compose: dict[str, Any]) -> None:
    wheel = locate(Host.current())
    help_text = subprocess.run([wheel.tritonserver, "--help"], capture_output=True, text=True, check=False)
    known = set(re.findall(r"--[a-z][a-z-]+", help_text.stdout + help_text.stderr))
    for profile in PROFILES:
        command = triton(compose, profile)["command"]
        assert command[0] == "tritonserver"
        assert {item.partition("=")[0] for item in command[1:]} <= known


def test_triton_image_is_pinned_and_has_what_the_runner_needs(compose: dict[str, Any]) -> None:
    image = dockerfile("triton")
    (tag,) = image["FROM"]
    found = re.fullmatch(r"nvcr\.io/nvidia/tritonserver:(\d\d)\.(\d\d)-py3", tag)
    assert found is not None
    assert (int(found[1]), int(found[2])) >= (25, 9)
    assert "'numpy>=1.26,<2'" in image["RUN"][0]
    assert image["COPY"] == [
        f"{backends.runner_directory().relative_to(ROOT)} /opt/tritonserver/backends/{backends.RUNNER}"
    ]
    arguments = {item.partition("=")[0] for item in image["ARG"]}
    for profile in PROFILES:
        assert set(triton(compose, profile)["build"]["args"]) <= arguments


def test_dockerfiles_are_where_compose_looks(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        if "build" in service:
            assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_bridge_image_starts_the_command_of_the_distribution() -> None:
    image = dockerfile("bridge")
    assert yaml.safe_load(image["ENTRYPOINT"][0]) == ["bridge"]
    assert isinstance(serve, click.Command)
    assert "bridge = " in (ROOT / "pyproject.toml").read_text()
