"""Names of the bridge's shared memory regions, from which anybody can tell whether their owner still lives.

A name is `bridge_PID_START_PLACE_NONCE`: the owner's process number and the time at which it was started, the set of
processes that this number belongs to, and 64 random bits.
"""

from __future__ import annotations

import os
import re
import secrets
import zlib
from pathlib import Path
from typing import NamedTuple, Self

_NAME = re.compile(r"bridge_(\d+)_(\d+)_([0-9a-f]{8})_[0-9a-f]{16}")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_START_TIME = 19
"""Position of the start time among the fields of /proc/PID/stat that follow the program's name."""
_ENDED = ("Z", "X")


class Owner(NamedTuple):
    """A process for as long as the machine runs. `place` is a digest of the boot and the PID namespace."""

    pid: int
    start: int
    place: str

    @classmethod
    def this(cls) -> Self:
        """The calling process. Raises OSError where /proc does not tell."""
        seen = f"{_BOOT.read_text()} {os.readlink('/proc/self/ns/pid')}"
        return cls(os.getpid(), _started(os.getpid()), f"{zlib.crc32(seen.encode()):08x}")

    def region_name(self) -> str:
        """A name that no region had before."""
        return f"bridge_{self.pid}_{self.start}_{self.place}_{secrets.token_hex(8)}"

    def outlived(self, name: str) -> bool:
        """Whether `name` is that of a region whose owner is dead for certain: it was of this place, and is gone."""
        parts = _NAME.fullmatch(name)
        if parts is None or parts[3] != self.place:
            return False
        try:
            os.kill(int(parts[1]), 0)
            return _started(int(parts[1])) != int(parts[2])
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:
            return False


def _started(pid: int) -> int:
    """When a process was started, in ticks since the boot; 0 for one that ended and was not waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 0 if fields[0] in _ENDED else int(fields[_START_TIME])
