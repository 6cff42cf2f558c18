"""The compiled part of the fast gRPC server: connections as state machines on bytes, over the system's libnghttp2.

It is optional. Where it was not built, or where the library is missing or older than the fixes of HTTP/2's denials of
service, `MODULE` is None and `PROBLEM` says why; grpcio serves then.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def _load() -> tuple[ModuleType | None, str]:
    try:
        return importlib.import_module("bridge.transport.native._http2"), ""
    except ModuleNotFoundError:
        return None, "its compiled part was not built"
    except ImportError as error:
        return None, error.msg


MODULE, PROBLEM = _load()
