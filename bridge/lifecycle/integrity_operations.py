"""What an operator or an auditor may ask of a running server about the integrity of its history."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from bridge.errors import BridgeError, Code, Internal
from bridge.registry.anchors import Anchor
from bridge.registry.integrity import Integrity

logger = logging.getLogger(__name__)


class IntegrityOperations:
    """Reads the database beside the registry, neither on its thread nor, for what takes long, in this process."""

    def __init__(self, integrity: Integrity) -> None:
        self._integrity = integrity
        self._verifying = asyncio.Lock()

    async def verify(self, anchor: Anchor | None = None) -> Mapping[str, Any]:
        """`Verification.to_json`, by this server's audit key if it has one; one after the other.

        Raises what `Integrity.verify` raises.
        """
        key = self._integrity.key
        question = {
            "url": self._integrity.url,
            "key": None if key is None else key.hex(),
            "anchor": None if anchor is None else anchor.to_json(),
        }
        async with self._verifying:
            return await _ask_verifier(json.dumps(question))

    async def anchor(self) -> Anchor:
        """Where the history is now. Raises FailedPrecondition while it has no event."""
        return await asyncio.to_thread(self._integrity.anchor)

    async def export(self, since: int | None, until: int | None) -> Iterator[str]:
        """The lines of a file with the events of that time (microseconds UTC), each read when it is asked for.

        Raises FailedPrecondition for a time that is archived.
        """
        return await asyncio.to_thread(self._integrity.export, since, until)


async def _ask_verifier(question: str) -> Mapping[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bridge.registry.verifier",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await process.communicate(question.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        logger.error("the verifier failed: %s", errors.decode(errors="replace").strip())
        raise Internal("The verification failed; the server's log says more.")
    answer: dict[str, Any] = json.loads(out)
    if "error" in answer:
        raise BridgeError(answer["error"], Code[answer["code"]])
    return answer
