"""Connects management calls with whoever leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.console.hosts import LocalHosts
from bridge.errors import BridgeError, Unavailable
from bridge.replicas import admin_messages, envelope, leader_line
from bridge.replicas.leader_line import LeaderLine
from bridge.replicas.offices import Office
from bridge.replicas.proof import Proof
from bridge.tfserving.rpc import Caller, Rpc, Service, Services

logger = logging.getLogger(__name__)

Leader = Callable[[], Awaitable[str]]
"""The address of the leader, empty while nobody leads."""

CatchUp = Callable[[int], Awaitable[None]]
"""Returns once this replica serves by the snapshot with that epoch, or by a newer one, or after a while."""

NOBODY = "No replica leads now, so nothing can be changed; another one takes over within seconds."
OPENING_SECONDS = 10.0
"""How long a call waits for a leader that has just begun."""
READS = frozenset({"GET", "HEAD", "OPTIONS"})
MANAGED = frozenset(
    {
        "/api/v1/labels",
        "/api/v1/registered_models",
        "/api/v1/vmodels",
        "/api/v1/rollback",
        "/models",
        "/vmodels",
        "/rollback",
    }
)
"""What only the leader can tell of."""


class Switchboard:
    """`open` gives it what answers while this replica leads; `leads` tells that from the beginning of a term on, so
    that calls wait for its office. `epoch` is that of the snapshot in use."""

    def __init__(
        self,
        line: LeaderLine,
        proof: Proof,
        leader: Leader,
        catch_up: CatchUp,
        epoch: Callable[[], int],
        leads: Callable[[], bool],
    ) -> None:
        self._office: Office | None = None
        self._opened = asyncio.Event()
        self._leads = leads
        self._line = line
        self._proof = proof
        self._leader = leader
        self._catch_up = catch_up
        self._epoch = epoch

    def open(self, office: Office) -> None:
        """This replica leads: `office` answers."""
        self._office = office
        self._opened.set()

    def close(self) -> None:
        """This replica leads no more."""
        self._office = None
        self._opened.clear()

    def rpcs(self, names: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, Rpc]]:
        """RPCs of these services and methods that reach the leader's."""
        return {
            service: {method: self._rpc(service, method) for method in methods} for service, methods in names.items()
        }

    def admin(self, own: ASGIApp, *, local_only: bool) -> ASGIApp:
        """The application of the admin port: `own` reads, everything else is the leader's."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            reads = scope["type"] != "http" or scope["method"] in READS
            if self._office is None and reads and scope.get("path") not in MANAGED:
                await own(scope, receive, send)
            elif (office := await self._present()) is not None:
                await office.admin(scope, receive, send)
            elif reads and not await self._leader():
                await own(scope, receive, send)
            else:
                await self._pass_on(scope, receive, send)

        return LocalHosts(app) if local_only else app

    def services(self) -> Services:
        """What the other replicas call here."""
        rpc, admin = self._checked(leader_line.RPC, self._take_rpc), self._checked(leader_line.ADMIN, self._take_admin)
        methods = {leader_line.RPC: rpc, leader_line.ADMIN: admin, leader_line.PING: self._ping}
        return {leader_line.SERVICE: Service(methods)}

    async def _ping(self, message: bytes, caller: Caller) -> bytes:
        """Somebody asks whether a replica is here."""
        self._proof.check(caller.metadata.get(leader_line.SIGNATURE, ""), leader_line.PING, message)
        return envelope.pack_answer(b"")

    def _rpc(self, service: str, method: str) -> Rpc:
        async def call(request: bytes, caller: Caller) -> bytes:
            office = await self._present()
            if office is not None:
                return bytes(await office.within(office.rpcs[service][method](request, caller)))
            message = envelope.pack_rpc(service, method, request, caller)
            return await self._ask(leader_line.RPC, message, caller.timeout)

        return call

    async def _ask(self, method: str, message: bytes, timeout: float | None) -> bytes:
        address = await self._leader()
        if not address:
            raise Unavailable(NOBODY)
        answer = await self._line.call(address, method, message, timeout)
        epoch, _, answer = answer.partition(b" ")
        await self._catch_up(int(epoch))
        return answer

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            message = await admin_messages.pack_request(scope, receive)
            answer = await self._ask(leader_line.ADMIN, message, None)
        except BridgeError as error:
            body = orjson.dumps({"error": error.message, "code": error.code.name})
            await Response(body, error.http_status, media_type="application/json")(scope, receive, send)
            return
        status, headers, body = admin_messages.unpack_response(answer)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _checked(self, method: str, take: Callable[[Office, bytes, Caller], Awaitable[bytes]]) -> Rpc:
        async def call(message: bytes, caller: Caller) -> bytes:
            self._proof.check(caller.metadata.get(leader_line.SIGNATURE, ""), method, message)
            try:
                office = await self._present()
                if office is None:
                    raise Unavailable(NOBODY)
                answer = await take(office, message, caller)
            except BridgeError as error:
                return envelope.pack_error(error)
            # The change is published when the event loop comes round.
            await asyncio.sleep(0)
            return envelope.pack_answer(b"%d %s" % (self._epoch(), answer))

        return call

    async def _present(self) -> Office | None:
        """What answers here; a term that begins opens its office within moments."""
        if self._office is None and self._leads():
            try:
                async with asyncio.timeout(OPENING_SECONDS):
                    await self._opened.wait()
            except TimeoutError:
                logger.warning("this replica leads, but is not ready for changes yet")
        return self._office

    async def _take_rpc(self, office: Office, message: bytes, caller: Caller) -> bytes:
        service, method, request, original = envelope.unpack_rpc(message, caller.timeout)
        return bytes(await office.within(office.rpcs[service][method](request, original)))

    async def _take_admin(self, office: Office, message: bytes, caller: Caller) -> bytes:
        return await office.within(admin_messages.answer(office.admin, message))
