"""What addresses mean."""

from __future__ import annotations

import ipaddress


def is_loopback(address: str) -> bool:
    """Whether a port that is bound to `address` can be reached from this machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
