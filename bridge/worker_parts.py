"""Who answers clients: this process, or as many workers as the settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from bridge.client_inputs import ClientInputs
from bridge.client_parts import ClientParts
from bridge.client_ports import EVERYWHERE, ClientPorts
from bridge.deciding import Deciding
from bridge.request_parts import RequestPath
from bridge.stage import Stage
from bridge.workers.addresses import ReservedGrpc, ReservedPorts, ReservedRest
from bridge.workers.gauges import WorkerGauges
from bridge.workers.workers import Workers


class Clients(Protocol):
    """The ports of clients, whatever process has them."""

    async def open(self, *, rest_optional: bool) -> Mapping[str, int]:
        """The bound ports by name. Raises BridgeError for what cannot be bound; with `rest_optional` this server goes
        on without REST where only that port cannot be."""

    async def in_step(self) -> None:
        """Return once clients are answered by what was published up to now."""


def clients(stage: Stage, deciding: Deciding, path: RequestPath) -> Clients:
    """Those that the settings ask for; nothing is opened."""
    inputs = stage.inputs.clients
    if inputs.settings.workers > 1:
        return _WorkerClients(inputs, stage, deciding)
    return ClientParts(inputs, stage.parts, path, deciding.gauges, deciding.management(), stage.guard.gates)


class _WorkerClients:
    """Keeps the ports, and has workers serve on them."""

    def __init__(self, inputs: ClientInputs, stage: Stage, deciding: Deciding) -> None:
        self._inputs = inputs
        self._stage = stage
        self._deciding = deciding
        self._workers: Workers | None = None

    async def open(self, *, rest_optional: bool) -> Mapping[str, int]:
        parts, settings, reserved = self._stage.parts, self._inputs.settings, ReservedPorts()
        parts.on_close_call(reserved.close)
        ports = await ClientPorts(
            settings, ReservedGrpc(reserved), ReservedRest(reserved), rest_optional=rest_optional
        ).open()
        if settings.modelmesh_port:
            ports["modelmesh"] = await ReservedGrpc(reserved).start(f"{EVERYWHERE}:{settings.modelmesh_port}")
        served = replace(self._inputs, settings=replace(settings, rest_api_port=ports.get("rest", 0)))
        deciding, stage = self._deciding, self._stage
        self._workers = Workers(
            served,
            stage.inputs.access,
            deciding.management(),
            deciding.gauges,
            deciding.view,
            deciding.control,
            deciding.routers,
            stage.guard.denials.denied,
        )
        deciding.gauges.own.show(WorkerGauges(self._workers))
        parts.on_close(self._workers.close)
        await self._workers.open()
        return ports

    async def in_step(self) -> None:
        if self._workers is not None:
            await self._workers.in_step()
