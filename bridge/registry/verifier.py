"""A verification in a process of its own, so that no server is slowed down by it: `python -m bridge.registry.verifier`.

Reads one JSON object from stdin: `url`, `key` (hex or null) and `anchor` (or null); writes one to stdout, that of the
verification, or `error` and `code`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from bridge.errors import BridgeError
from bridge.registry import anchors
from bridge.registry.integrity import Integrity

NICE = 10
"""Serving goes first."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """What a verification finds, or why there is none."""
    key = question["key"]
    anchor = question["anchor"]
    integrity = Integrity(question["url"], None if key is None else bytes.fromhex(key))
    try:
        return integrity.verify(None if anchor is None else anchors.read(anchor)).to_json()
    except BridgeError as error:
        return {"error": error.message, "code": error.code.name}


def main() -> None:
    os.nice(NICE)
    json.dump(answer(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
