"""The compiled parts of the codecs: numbers as JSON text, without the interpreter's lock, and Predict messages.

They are optional. Where they were not built, `LIBRARY` and `PREDICT` are None and the plain code gives the same bytes,
more slowly.
"""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from types import ModuleType
from typing import Final

_int64_p = ctypes.POINTER(ctypes.c_int64)
MAX_RANK = 254


class ParseResult(ctypes.Structure):
    """Where the lists end, and what was in them; `shape` has `rank` entries."""

    end: int
    count: int
    rank: int
    integers: int
    _fields_ = (
        ("end", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("integers", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
    )


def _load() -> ctypes.CDLL | None:
    built = sorted(Path(__file__).parent.glob("_json_numbers*.so"))
    if not built:
        return None
    library = ctypes.CDLL(str(built[-1]))
    library.json_print.restype = ctypes.c_int64
    library.json_print.argtypes = (
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int,
        _int64_p,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.POINTER(ctypes.c_int32),
        ctypes.c_void_p,
    )
    library.json_commas.restype = ctypes.c_int64
    library.json_commas.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
    library.json_parse.restype = ctypes.c_int
    library.json_parse.argtypes = (
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.POINTER(ParseResult),
    )
    return library


def _load_predict() -> ModuleType | None:
    try:
        return importlib.import_module("bridge.codec.native._predict")
    except ImportError:
        return None


LIBRARY: Final = _load()
PREDICT: ModuleType | None = _load_predict()
