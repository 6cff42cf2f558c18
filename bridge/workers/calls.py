"""Calls that clients make to a worker and that the control process answers: RPCs over the link between both.

A worker sends `call` ([number, service, method, request, caller]) and, when its client goes away, `cancel` (number);
the control process sends `answer` ([number, code, text, response]). Bytes are base64.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping

from bridge.access import plain
from bridge.access.plain import base64_text, plain_caller
from bridge.errors import BridgeError, Code, Unavailable
from bridge.serving.lines import Lines
from bridge.serving.link import Router, Word
from bridge.tfserving.rpc import FAULT, Caller, Rpc

logger = logging.getLogger(__name__)

Rpcs = Mapping[str, Mapping[str, Rpc]]
"""RPCs by service and method."""


class CallServer:
    """The control process' end: runs `rpcs` for workers. An answer goes out after `settle`, also that of an error."""

    def __init__(self, rpcs: Rpcs, settle: Callable[[], Awaitable[None]]) -> None:
        self._rpcs = rpcs
        self._settle = settle
        self._calls: dict[tuple[Router, int], asyncio.Task[None]] = {}

    @property
    def words(self) -> Mapping[str, Word]:
        """What to do with a worker's messages."""
        return {"call": self._call, "cancel": self._cancel}

    def forget(self, router: Router) -> None:
        """A worker is gone, and its clients with it: nobody waits for its calls."""
        for of, number in list(self._calls):
            if of is router:
                self._calls[of, number].cancel()

    def _call(self, router: Router, document: bytes) -> None:
        number, service, method, request, caller = json.loads(document)
        work = self._answer(
            router, number, self._rpcs[service][method], b64decode(request), plain.caller_of_plain(caller)
        )
        task = asyncio.create_task(work, name=f"{method} for {router.name}")
        self._calls[router, number] = task
        task.add_done_callback(lambda done: self._calls.pop((router, number)))

    def _cancel(self, router: Router, document: bytes) -> None:
        task = self._calls.get((router, json.loads(document)))
        if task is not None:
            task.cancel()

    async def _answer(self, router: Router, number: int, rpc: Rpc, request: bytes, caller: Caller) -> None:
        code, text, response = Code.OK, "", b""
        try:
            response = bytes(await rpc(request, caller))
        except BridgeError as error:
            code, text = error.code, error.message
        except Exception:
            logger.exception("a call from %s failed by a fault of the bridge", router.name)
            code, text = Code.INTERNAL, FAULT
        await self._settle()
        router.send("answer", json.dumps([number, int(code), text, base64_text(response)]).encode())


class CallClient:
    """A worker's end: makes Rpcs that the control process runs."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    def rpc(self, service: str, method: str) -> Rpc:
        """An Rpc that the control process knows by these names."""

        async def call(request: bytes, caller: Caller) -> bytes:
            number = next(self._numbers)
            future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._waiting[number] = future
            message = [number, service, method, base64_text(request), plain_caller(caller)]
            self._lines.send("call", json.dumps(message).encode())
            try:
                return await future
            except asyncio.CancelledError:
                self._lines.send("cancel", json.dumps(number).encode())
                raise
            finally:
                del self._waiting[number]

        return call

    def answered(self, document: bytes) -> None:
        """An `answer` came."""
        number, code, text, response = json.loads(document)
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if code == Code.OK:
            future.set_result(b64decode(response))
        else:
            future.set_exception(BridgeError(text, Code(code)))

    def hung_up(self) -> None:
        """The control process is gone."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unavailable("The control process ended before it answered."))
