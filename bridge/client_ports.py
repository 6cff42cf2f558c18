"""The ports of TF Serving clients: gRPC on TCP and on a Unix socket, and REST."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from bridge.errors import BridgeError, InvalidArgument
from bridge.settings import Settings

logger = logging.getLogger(__name__)

EVERYWHERE = "0.0.0.0"


class GrpcPort(Protocol):
    """What gRPC is opened by: a server, or whoever keeps addresses for others."""

    async def start(self, *addresses: str) -> int: ...

    async def stop(self, grace: float) -> None: ...


class RestPort(Protocol):
    """What REST is opened by."""

    async def start(self, host: str, port: int) -> int: ...

    async def stop(self, grace: float) -> None: ...


class ClientPorts:
    """Opens what the settings ask for, in TF Serving's order.

    `rest_optional` goes on without REST where its port cannot be bound, as TF Serving does.
    """

    def __init__(self, settings: Settings, grpc: GrpcPort, rest: RestPort, *, rest_optional: bool) -> None:
        self._settings = settings
        self._grpc = grpc
        self._rest = rest
        self._rest_optional = rest_optional
        self._stops: list[Callable[[float], Awaitable[None]]] = []

    async def open(self) -> dict[str, int]:
        """The bound ports by name. Raises BridgeError for an address that cannot be bound."""
        ports: dict[str, int] = {}
        addresses = self._grpc_addresses()
        if addresses:
            port = await self._grpc.start(*addresses)
            self._stops.append(self._grpc.stop)
            if self._settings.port:
                ports["grpc"] = port
        if self._wants_rest():
            await self._open_rest(ports)
        return ports

    async def close(self, grace: float) -> None:
        """Take no new requests, let those in flight finish for `grace` seconds, then cancel them."""
        await asyncio.gather(*(stop(grace) for stop in self._stops))

    def _grpc_addresses(self) -> list[str]:
        settings = self._settings
        addresses = [f"{EVERYWHERE}:{settings.port}"] if settings.port else []
        return addresses + ([f"unix:{settings.grpc_socket_path}"] if settings.grpc_socket_path else [])

    def _wants_rest(self) -> bool:
        if self._settings.rest_api_port and self._settings.rest_api_port == self._settings.port:
            logger.error("--rest_api_port is --port, %d: REST is not served.", self._settings.port)
            return False
        return bool(self._settings.rest_api_port)

    async def _open_rest(self, ports: dict[str, int]) -> None:
        port = self._settings.rest_api_port
        try:
            ports["rest"] = await self._rest.start(EVERYWHERE, port)
        except BridgeError as error:
            if not self._rest_optional:
                raise
            logger.error("Failed to start HTTP Server at localhost:%d: %s", port, error.message)
        else:
            self._stops.append(self._rest.stop)


def channel_arguments(text: str) -> dict[str, int | str]:
    """The gRPC channel arguments in `KEY=VALUE,…`; a value that is a number is one. Raises InvalidArgument."""
    arguments: dict[str, int | str] = {}
    for item in text.split(",") if text else []:
        key, *values = item.split("=")
        if not key or not values:
            raise InvalidArgument(f"--grpc_channel_arguments={text}: '{item}' is not KEY=VALUE")
        arguments[key] = _number(values[0])
    return arguments


def _number(text: str) -> int | str:
    try:
        value = int(text)
    except ValueError:
        return text
    return value if -(2**31) <= value < 2**31 else text
