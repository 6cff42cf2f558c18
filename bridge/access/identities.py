"""Finds out who calls, by the entries of a file that may change while the server runs."""

from __future__ import annotations

import hmac

from bridge import moments
from bridge.access.entries import Entries, Entry, digest
from bridge.access.identity import Credentials, Identity, Kind
from bridge.clock import Clock
from bridge.errors import BridgeError, Code

BEARER = "bearer"


class Unauthenticated(BridgeError):
    """The credentials prove nothing. `identity` is whom they named all the same, such as an expired token's.

    `presented` tells whether there were any.
    """

    code = Code.UNAUTHENTICATED

    def __init__(self, message: str, identity: Identity, *, presented: bool = True) -> None:
        super().__init__(message)
        self.identity = identity
        self.presented = presented


class Identities:
    """Who is known, until `entries` are replaced by others."""

    def __init__(self, clock: Clock, entries: Entries | None = None) -> None:
        self.entries = entries or Entries()
        self._clock = clock

    def identify(self, credentials: Credentials) -> Identity:
        """Who that is and what it entitles to.

        A certificate and a token count together; the certificate gives the name. Raises Unauthenticated for a token
        that is unknown or expired, and for a certificate whose entry expired.
        """
        if not credentials.authorization:
            return self._certificate(credentials)
        by_token = self._token(credentials)
        if not credentials.subject:
            return by_token
        by_subject = self._certificate(credentials)
        return Identity(by_subject.name, Kind.CERTIFICATE, by_subject.scopes | by_token.scopes)

    def recognise(self, credentials: Credentials) -> Identity:
        """Who that is, where nothing depends on it: what proves nothing is passed over."""
        try:
            return self.identify(credentials)
        except Unauthenticated:
            return credentials.unproven()

    def _certificate(self, credentials: Credentials) -> Identity:
        entry = self.entries.subjects.get(credentials.subject) if credentials.subject else None
        if entry is None:
            return credentials.unproven()
        return self._unexpired(entry, "certificate")

    def _token(self, credentials: Credentials) -> Identity:
        scheme, _, token = credentials.authorization.strip().partition(" ")
        if scheme.lower() != BEARER or not token:
            raise Unauthenticated("The authorization is not of the form 'Bearer TOKEN'.", credentials.unproven())
        presented = digest(token.strip())
        entry = self.entries.tokens.get(presented)
        # The lookup compares digests, whose bytes a caller cannot choose; this leaves no time to measure in any case.
        if entry is None or not hmac.compare_digest(entry.digest, presented):
            raise Unauthenticated("The bearer token is not one that this server knows.", credentials.unproven())
        return self._unexpired(entry, "token")

    def _unexpired(self, entry: Entry, what: str) -> Identity:
        identity = entry.identity
        if entry.expires is not None and self._clock.now() >= entry.expires:
            message = f"The {what} of '{identity.name}' expired at {moments.describe(entry.expires)}."
            raise Unauthenticated(message, Identity(identity.name, identity.kind))
        return identity
