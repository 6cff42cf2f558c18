"""Lets the calls of one port pass whose callers have the scope that the call needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bridge.access.denial import REASON, REQUEST_ID, Denial, Report
from bridge.access.identities import Identities, Unauthenticated
from bridge.access.identity import Credentials, Identity, Kind, Scope
from bridge.errors import BridgeError, Code


class Gate:
    """The gate of one port.

    `required` are the scopes that this port asks for; calls that need another one are everybody's. `source` is how the
    history names the way of the port's calls. `report` hears of what was denied.
    """

    def __init__(
        self, port: str, source: str, identities: Identities, required: Collection[Scope], report: Report
    ) -> None:
        self._port = port
        self._source = source
        self._identities = identities
        self._required = frozenset(required)
        self._report = report

    @property
    def closed(self) -> bool:
        """Whether any call needs a scope."""
        return bool(self._required)

    def permitted(self, identity: Identity) -> frozenset[Scope]:
        """The scopes that this caller has here, those included that are everybody's."""
        return identity.scopes | (frozenset(Scope) - self._required)

    def requires(self, scope: Scope | None) -> bool:
        return scope in self._required

    def admit(
        self, method: str, scope: Scope | None, credentials: Credentials, metadata: Mapping[str, str]
    ) -> Identity:
        """Who calls, if they may call `method`, which needs `scope`, None for everybody's.

        `metadata`, by lower-case name, tells the history reason and request id. Raises BridgeError: UNAUTHENTICATED
        where nothing is proven, PERMISSION_DENIED where the scope is missing.
        """
        if scope is None or scope not in self._required:
            return self._identities.recognise(credentials)
        try:
            identity = self._identities.identify(credentials)
        except Unauthenticated as error:
            self._deny(method, scope, error, error.identity, credentials, metadata)
            raise
        if scope not in identity.scopes:
            lacking = _lacking(method, scope, identity)
            self._deny(method, scope, lacking, identity, credentials, metadata)
            raise lacking
        return identity

    def _deny(
        self,
        method: str,
        scope: Scope,
        error: BridgeError,
        identity: Identity,
        credentials: Credentials,
        metadata: Mapping[str, str],
    ) -> None:
        self._report(
            Denial(
                self._port,
                self._source,
                method,
                scope,
                error.code,
                error.message,
                identity,
                credentials.peer,
                {name: metadata[name] for name in (REASON, REQUEST_ID) if name in metadata},
            )
        )


def _lacking(method: str, scope: Scope, identity: Identity) -> BridgeError:
    if identity.kind is Kind.PEER:
        message = f"{method} needs a bearer token or a client certificate with the scope {scope}."
        return Unauthenticated(message, identity, presented=False)
    return BridgeError(
        f"'{identity.name}' does not have the scope {scope}, which {method} needs.", Code.PERMISSION_DENIED
    )
