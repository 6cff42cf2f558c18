"""`bridge serve` whose control plane also serves routers in other processes.

`python -m tests.acceptance.linked_server SOCKET serve …`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bridge.control_parts
from bridge.cli.main import main
from bridge.lifecycle.control_plane import ControlPlane
from bridge.serving.link_socket import LinkServer

SOCKET = Path(sys.argv.pop(1))


class LinkedControlPlane(ControlPlane):
    """Publishes on the socket too, and hears what the routers there say."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._link = LinkServer(SOCKET, self)

    def start(self) -> None:
        super().start()
        self.publisher.subscribe(self._link.publish)
        self.on_lost(self._link.lose)
        self.spawn(self._link.start(), "link")


if __name__ == "__main__":
    bridge.control_parts.ControlPlane = LinkedControlPlane  # type: ignore[misc]
    main()
