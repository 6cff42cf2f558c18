"""The C library's allocator, which keeps what many threads freed unless it is asked."""

from __future__ import annotations

import ctypes


def trim() -> None:
    """Give free memory back to the system where the C library can (glibc does): milliseconds, without Python's lock."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if function is not None:
        function(0)
