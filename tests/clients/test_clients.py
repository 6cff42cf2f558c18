"""Clients that know TensorFlow Serving only, in Python, Go and Java, on a real bridge and a real Triton."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients import builds
from tests.clients.builds import Unavailable
from tests.clients.calls import ANSWERS
from tests.clients.conftest import Served

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

RUN_SECONDS = 120.0

COMMANDS: dict[str, Callable[[], list[str]]] = {
    "python": lambda: [sys.executable, "-W", "ignore", "-m", "tests.clients.python_client"],
    "go": builds.go_client,
    "java": builds.java_client,
}


@functools.cache
def ask(language: str, server: str, models: str) -> Any:
    """All answers of one client; its calls are made once."""
    try:
        command = COMMANDS[language]()
    except Unavailable as missing:
        return str(missing)
    command = [*command, server, f"{models}/numbered", f"{models}/strings"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("call", ANSWERS)
@pytest.mark.parametrize("language", COMMANDS)
def test_a_client_reads_what_tf_serving_answers(served: Served, language: str, call: str) -> None:
    answers = ask(language, served.server.grpc, str(served.models))
    if isinstance(answers, str):
        pytest.skip(f"no {language} client: {answers}")
    assert answers.keys() == ANSWERS.keys()
    assert answers[call] == ANSWERS[call]
