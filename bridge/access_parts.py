"""Who may call this server, and what becomes of denied calls, built from its inputs."""

from __future__ import annotations

from bridge.access.denials import Denials
from bridge.access_inputs import AccessInputs
from bridge.clock import SystemClock
from bridge.parts import Parts
from bridge.registry.events import Event
from bridge.registry.records import Actor
from bridge.registry_access import RegistryAccess


class AccessParts:
    """`denials` hears of denied calls, `gates` deny them."""

    def __init__(self, inputs: AccessInputs, access: RegistryAccess) -> None:
        self._file = inputs.file

        def write(event: Event, actor: Actor) -> None:
            access.recorder.record(access.registry.append, event, actor)

        self.denials = Denials(write, SystemClock())
        self.gates = inputs.gates(self.denials.denied)

    def start(self, parts: Parts) -> None:
        """Follow the file of tokens, and write down what was denied; the recorder has to close after this."""
        if self._file is not None:
            parts.spawn(self._file.watch(), "access token file")
        parts.on_close_call(lambda: self.denials.flush(everything=True))
        parts.spawn(self.denials.run(), "denied calls")
