"""What runs on a Triton's host that shares no file system with the bridge: it copies the bridge's model repository.

It asks the bridge what is wanted, says what it has by the same call, and downloads the rest.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from model_repo_sync.mirror import Mirror, MirroredModel
from model_repo_sync.repository import ModelRepository

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
_CHUNK = 1 << 20


class BridgeAnswers:
    """The bridge's agent port at `url`, for one instance. Calls raise OSError, ValueError, HTTPException."""

    def __init__(self, url: str, instance: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._instance = instance
        self._headers = {"Authorization": f"Bearer {token}"}
        # An agent talks to one address that it was given; no environment should lead its token elsewhere.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def wanted(self, held: dict[str, str]) -> tuple[str, dict[str, MirroredModel]]:
        """The bridge's deployment, and what its repository holds; `held` tells it what is here."""
        body = json.dumps({"held": held}).encode()
        with self._open("", {}, body) as response:
            document = json.load(response)
        models = document["models"].items()
        return document["deployment"], {name: _model(**model) for name, model in models}

    def download(self, name: str, digest: str, path: str) -> Iterator[bytes]:
        """The bytes of one file."""
        with self._open("/file", {"model": name, "digest": digest, "path": path}) as response:
            while chunk := response.read(_CHUNK):
                yield chunk

    def _open(self, resource: str, query: dict[str, str], body: bytes | None = None) -> Any:
        question = urlencode({"instance": self._instance, **query})
        request = urllib.request.Request(f"{self._url}/api/v1/repository{resource}?{question}", body, self._headers)
        return self._opener.open(request, timeout=ANSWER_SECONDS)


def _model(digest: str, files: dict[str, int], directories: list[str]) -> MirroredModel:
    return MirroredModel(digest, files, tuple(directories))


class Agent:
    """Keeps the directory `repository` a copy of the bridge's. Models of other deployments are left alone."""

    def __init__(self, bridge: BridgeAnswers, repository: Path) -> None:
        self._bridge = bridge
        self._path = repository
        self._mirror: Mirror | None = None
        self._deployment = ""

    def step(self) -> list[str]:
        """One question and what it asks for; the names of what changed. Raises OSError, ValueError."""
        held = self._mirror.held() if self._mirror is not None else {}
        deployment, wanted = self._bridge.wanted(held)
        if self._mirror is None or deployment != self._deployment:
            self._mirror, self._deployment = Mirror(ModelRepository(self._path, deployment)), deployment
        changed = self._mirror.follow(wanted, self._bridge.download)
        for name in changed:
            logger.info("%s %s", "has" if name in wanted else "removed", name)
        return changed

    def run(self, interval: float) -> None:
        """Step without an end, at once after something changed and else every `interval` seconds."""
        trouble = ""
        while True:
            changed: list[str] = []
            try:
                changed = self.step()
                trouble = ""
            except (HTTPException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                if str(error) != trouble:
                    trouble = str(error)
                    logger.warning("cannot follow the bridge, trying again: %s", trouble)
            if not changed:
                time.sleep(interval)
