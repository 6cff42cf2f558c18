"""What ties a bridge to the others on its database: name, membership, notices, and the port between replicas."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from bridge import __version__
from bridge.errors import BridgeError, FailedPrecondition, InvalidArgument
from bridge.registry.records import Replica
from bridge.registry.thread import RegistryThread
from bridge.registry_access import replica_name
from bridge.replicas.leader_line import PING, LeaderLine
from bridge.replicas.membership import Duties, Membership, Times
from bridge.replicas.progress import RouterProgress
from bridge.replicas.proof import Proof
from bridge.replicas.switchboard import Switchboard
from bridge.stage import Stage
from bridge.transport.grpcio_server import GrpcioServer

logger = logging.getLogger(__name__)

PING_SECONDS = 2.0
BEATS_PER_LEASE = 5
"""How often the leadership is renewed while it lasts."""


class ReplicaLink:
    """`open` makes the rest of it. Calls of the registry are made on `thread`, which nothing else holds up."""

    membership: Membership
    switchboard: Switchboard

    def __init__(self, stage: Stage, duties: Duties) -> None:
        settings, registry = stage.inputs.settings, stage.access.registry
        self.name = replica_name(settings, stage.state)
        lease = float(settings.leader_lease_seconds)
        if lease < 1:
            raise InvalidArgument(f"--leader_lease_seconds={settings.leader_lease_seconds} is less than a second")
        self.times = Times(lease, float(settings.router_lease_seconds), lease / BEATS_PER_LEASE)
        self.thread = RegistryThread("replica")
        self.progress = RouterProgress(registry, self.thread, self.name, self.times.router_lease)
        self._stage = stage
        self._duties = duties
        stage.parts.on_close_call(self.thread.close)

    async def open(
        self, hear: Callable[[str, Any], None], catch_up: Callable[[int], Awaitable[None]], epoch: Callable[[], int]
    ) -> None:
        """Open the port for the other replicas, and listen to their notices. Raises BridgeError.

        `epoch` is that of the snapshot in use, `catch_up` returns once that is another replica's or newer.
        """
        # Its library takes 10 MB, which a bridge on SQLite does without.
        from bridge.registry.listener import Listener

        stage, registry = self._stage, self._stage.access.registry
        proof = Proof(await self.thread.call(registry.replica_secret))
        line = LeaderLine(proof)
        stage.parts.on_close(line.close)
        self.switchboard = Switchboard(line, proof, self._leader, catch_up, epoch, lambda: self.membership.leads)
        await self._require_name(line)
        replica = Replica(self.name, await self._serve(), __version__)
        self.membership = Membership(registry, self.thread, replica, self._duties, self.times)
        stage.parts.on_close(self.membership.leave)
        listener = Listener(stage.inputs.settings.database_url, hear, self.membership.kick)
        stage.parts.spawn(listener.run(), "notices of the other bridges")

    async def join(self) -> None:
        """Be known to the others from now on. Raises Unavailable."""
        await self.membership.join()

    def start(self) -> None:
        """Stay known until the end."""
        self._stage.parts.spawn(self.membership.run(), "membership")

    async def _require_name(self, line: LeaderLine) -> None:
        """Raises FailedPrecondition if another bridge goes by the name of this one."""
        known = await self.thread.call(self._stage.access.registry.replicas)
        for replica in known:
            if replica.name == self.name and await _answers(line, replica.address):
                raise FailedPrecondition(
                    f"The bridge at {replica.address} is called '{self.name}', too; "
                    "give each bridge on one database a --replica_name of its own."
                )

    async def _serve(self) -> str:
        """The address of the port between replicas."""
        host, port = _address(self._stage.inputs.settings.replica_address)
        server = GrpcioServer(self.switchboard.services())
        bound = await server.start(f"{host}:{port}")
        self._stage.parts.on_close(lambda: server.stop(1.0))
        return f"{host}:{bound}"

    async def _leader(self) -> str:
        for _ in range(2):
            pulse = self.membership.pulse
            if pulse is not None and pulse.led and pulse.lease is not None and pulse.lease.holder != self.name:
                return pulse.leader_address
            await self.membership.beat()
        return ""


async def _answers(line: LeaderLine, address: str) -> bool:
    try:
        await line.call(address, PING, b"", PING_SECONDS)
    except BridgeError:
        return False
    return True


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal():
        raise InvalidArgument(f"--replica_address={text} is not HOST:PORT")
    return host, int(port)
