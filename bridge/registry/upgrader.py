"""An upgrade of the schema in a process of its own: `python -m bridge.registry.upgrader`.

Alembic takes 12 MB, which a server that upgrades by itself would keep for good. The process reads one JSON object from
stdin: `url`, `migrate` and `key` (hex or null); it writes one to stdout, empty or with `error` and `code`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bridge.errors import BridgeError, Code, Internal
from bridge.registry import schema


def upgrade(url: str, *, migrate: bool, audit_key: bytes | None) -> None:
    """`schema.upgrade`, where the database needs it. Raises what that raises."""
    if schema.status(url).current:
        return
    question = {"url": url, "migrate": migrate, "key": None if audit_key is None else audit_key.hex()}
    command = [sys.executable, "-m", "bridge.registry.upgrader"]
    done = subprocess.run(command, input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Internal(f"The process that brings the database's schema up to date ended with {done.returncode}.")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise BridgeError(answer["error"], Code[answer["code"]])


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """What is left to say after the upgrade: nothing, or why there was none."""
    key = question["key"]
    audit_key = None if key is None else bytes.fromhex(key)
    try:
        schema.upgrade(question["url"], migrate=question["migrate"], audit_key=audit_key)
    except BridgeError as error:
        return {"error": error.message, "code": error.code.name}
    return {}


def main() -> None:
    json.dump(answer(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
