"""What a control plane is to a server, in small: the Triton of the sidecar, its copies, and the routes to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from bridge.lifecycle.fleet import Fleet
from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.publisher import Publisher
from bridge.lifecycle.servable import Placeable
from bridge.serving.routes import InstanceRoute, RegisteredRoute

logger = logging.getLogger(__name__)

Registered = Callable[[], Mapping[str, RegisteredRoute]]


class RuntimePlane:
    """Owner of the instances, their listener, and the Control of the request path. What was lost is loaded again."""

    def __init__(self, router_lease_seconds: float) -> None:
        self.fleet = Fleet()
        self.fleet.keep_if(lambda name: False)
        self.leases = RouterLeases(router_lease_seconds)
        self.publisher = Publisher(tuple, self.fleet.routes)
        self._on_lost: list[Callable[[str, str], None]] = []

    def publish_models(self, registered: Registered) -> None:
        """Publish these models from now on."""
        self.publisher.add_modelmesh(registered, dict)

    def on_lost(self, lose: Callable[[str, str], None]) -> None:
        """Tell `lose` (Triton name, instance) of each copy whose process is gone."""
        self._on_lost.append(lose)

    # InstanceListener

    def copies_changed(self, triton_names: Collection[str]) -> None:
        self.publisher.publish_soon()

    def copy_loaded(self, instance: str, servable: Placeable) -> None:
        logger.info("%s serves on instance %s", servable, instance)

    def copy_lost(self, instance: str, triton_name: str, reason: str) -> None:
        logger.warning("instance %s lost %s: %s", instance, triton_name, reason)
        for lose in self._on_lost:
            lose(triton_name, instance)

    def instance_changed(self, instance: str, up: bool, reason: str) -> None:
        logger.info("instance %s is %s%s", instance, "up" if up else "down", f": {reason}" if reason else "")
        self.fleet.instance_changed()
        self.publisher.publish_soon()

    def instance_placed(self, route: InstanceRoute, owner: str) -> None:
        logger.info("instance %s is at %s, with %s", route.name, route.grpc, owner)

    # Control

    def report_failure(self, triton_name: str, instance: str, reason: str) -> None:
        self.fleet.suspect(triton_name, instance, reason)

    def drained(self, router: str, epoch: int) -> None:
        self.leases.drained(router, epoch)

    def load_on_demand(self, model_id: str) -> None:
        """ModelMesh alone decides what is loaded; a copy that was lost comes back by itself."""

    def used(self, model_id: str, count: int) -> None:
        """ModelMesh counts for itself."""
