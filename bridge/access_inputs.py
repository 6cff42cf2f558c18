"""What settings and files say of who may call, read before anything starts."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.access import requirements
from bridge.access.denial import Report
from bridge.access.gates import Gates
from bridge.access.identities import Identities
from bridge.access.requirements import Requirements
from bridge.access.token_file import TokenFile
from bridge.addresses import is_loopback
from bridge.clock import SystemClock
from bridge.errors import InvalidArgument
from bridge.settings import Settings


@dataclass(frozen=True)
class AccessInputs:
    """`required` is by client port; `file` keeps `identities` as it says, None where nobody is known."""

    identities: Identities
    required: Requirements
    file: TokenFile | None
    open_metrics: bool

    def gates(self, report: Report) -> Gates:
        """The gates of this process' ports; `report` hears of denied calls."""
        login = self.file is not None
        return Gates(self.identities, self.required, report, admin_login=login, open_metrics=self.open_metrics)


def read(settings: Settings) -> AccessInputs:
    """Raises InvalidArgument with one sentence for what cannot be used."""
    path = settings.access_token_file
    required = requirements.parse(settings.require_access)
    if settings.require_access and not path:
        raise InvalidArgument("--require_access needs --access_token_file, which says who may call")
    if settings.admin_port and not path and not is_loopback(settings.admin_address):
        raise InvalidArgument(
            f"--admin_address={settings.admin_address} can be reached from other machines, so it needs "
            "--access_token_file; without one the admin port is for loopback addresses only"
        )
    identities = Identities(SystemClock())
    file = TokenFile(path, identities) if path else None
    if file is not None:
        file.load()
    return AccessInputs(identities, required, file, settings.open_metrics)
