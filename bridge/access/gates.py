"""The gates of all ports of one process."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.access import methods
from bridge.access.denial import Report
from bridge.access.gate import Gate
from bridge.access.identities import Identities
from bridge.access.identity import Scope
from bridge.access.methods import METRICS, Needs
from bridge.access.requirements import Requirements

RPC, REST, ADMIN = "RPC", "REST", "admin"
"""How the history names the ways in."""

_SOURCES = {"grpc": RPC, "rest": REST, "modelmesh": RPC}


class Gates:
    """Makes the gate of each port. `required` are the scopes that client ports ask for.

    With `admin_login` the admin port asks for everything; with `open_metrics` metrics are everybody's on every port.
    `report` hears of what was denied.
    """

    def __init__(
        self,
        identities: Identities,
        required: Requirements,
        report: Report,
        *,
        admin_login: bool = False,
        open_metrics: bool = False,
    ) -> None:
        self._identities = identities
        self._required = required
        self._report = report
        self._admin_login = admin_login
        self._open_metrics = open_metrics

    def client(self, port: str) -> Gate:
        """The gate of a client port: grpc, rest or modelmesh."""
        return self._gate(port, _SOURCES[port], self._required.get(port, frozenset()))

    def admin(self) -> Gate:
        return self._gate("admin", ADMIN, frozenset(Scope) if self._admin_login else frozenset())

    @property
    def rest_needs(self) -> Needs:
        return self._with_metrics(methods.REST, METRICS)

    @property
    def admin_needs(self) -> Needs:
        return self._with_metrics(methods.ADMIN, methods.METRICS_PAGE)

    def _gate(self, port: str, source: str, required: frozenset[Scope]) -> Gate:
        return Gate(port, source, self._identities, required, self._report)

    def _with_metrics(self, needs: Needs, name: str) -> Mapping[str, Scope | None]:
        return {**needs, name: None} if self._open_metrics else needs
