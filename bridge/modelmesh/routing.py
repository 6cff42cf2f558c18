"""What the request path knows of registered models and vmodels, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.lifecycle.leases import RouterLeases
from bridge.lifecycle.publisher import Publisher
from bridge.modelmesh.catalog import ModelCatalog
from bridge.modelmesh.demands import Demands
from bridge.modelmesh.vmodels import VModels
from bridge.placement.model import Loadable
from bridge.placement.placement import Placement
from bridge.serving.routes import RegisteredRoute, VModelRoute


class Withdrawals:
    """The Router of placement: has changes published, and knows when a withdrawn copy has no request left."""

    def __init__(self, publisher: Publisher, leases: RouterLeases) -> None:
        self._publisher = publisher
        self._leases = leases
        self._dirty: set[str] = set()

    def changed(self, model_id: str) -> None:
        self._dirty.add(model_id)
        self._publisher.publish_soon()

    async def drained(self, model: Loadable, instance: str) -> None:
        await self._leases.wait_drained(self._publisher.publish())

    def take(self) -> set[str]:
        """The models whose routes changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty


class Routing:
    """Builds the routes of registered models and vmodels; only what changed is built anew."""

    def __init__(
        self,
        catalog: ModelCatalog,
        vmodels: VModels,
        placement: Placement,
        demands: Demands,
        withdrawals: Withdrawals,
    ) -> None:
        self._catalog = catalog
        self._vmodels = vmodels
        self._placement = placement
        self._demands = demands
        self._withdrawals = withdrawals
        self._registered: Mapping[str, RegisteredRoute] = {}
        self._vmodel_routes: Mapping[str, VModelRoute] | None = None
        vmodels.listen(self._vmodel_changed)

    def registered(self) -> Mapping[str, RegisteredRoute]:
        dirty = self._withdrawals.take()
        if dirty:
            routes = dict(self._registered)
            for id in dirty:
                route = self._route(id)
                if route is None:
                    routes.pop(id, None)
                else:
                    routes[id] = route
            self._registered = routes
        return self._registered

    def vmodels(self) -> Mapping[str, VModelRoute]:
        if self._vmodel_routes is None:
            self._vmodel_routes = {vmodel.id: VModelRoute(vmodel.id, vmodel.active) for vmodel in self._vmodels}
        return self._vmodel_routes

    def _route(self, id: str) -> RegisteredRoute | None:
        registration = self._catalog.registration(id)
        if registration is None:
            return None
        instances = self._placement.loaded(id)
        servable = registration.servable
        route = servable.route(instances) if servable is not None and instances else None
        return RegisteredRoute.of(id, route, self._demands.failure(id))

    def _vmodel_changed(self, id: str) -> None:
        self._vmodel_routes = None
