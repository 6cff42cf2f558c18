"""How TF Serving's REST API writes floating-point numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def float_texts(values: NDArray[np.floating[Any]]) -> list[str]:
    """JSON tokens of a flat float32 or float64 array.

    Six significant digits where they parse back to the same value of the array's type, else as many as always do (9 or
    17). Whole numbers get `.0` unless in exponent form. Non-finite ones are NaN, Infinity, -Infinity.
    """
    numbers: list[float] = values.tolist()
    texts = _formatted("%g", numbers)
    # Parsing by way of float64 rounds twice; no number of six digits lies near enough to the middle of two float32 for
    # that to differ from parsing as float32 (all of them were tried).
    with np.errstate(over="ignore"):
        parsed = np.fromiter(map(float, texts), np.float64, len(texts)).astype(values.dtype)
    longer = np.flatnonzero((parsed != values) & np.isfinite(values)).tolist()
    exact = "%.9g" if values.dtype == np.float32 else "%.17g"
    for index, text in zip(longer, _formatted(exact, [numbers[index] for index in longer]), strict=True):
        texts[index] = text
    return [text if "." in text or "e" in text else _SPECIAL.get(text) or f"{text}.0" for text in texts]


def _formatted(form: str, numbers: list[float]) -> list[str]:
    """Every number by one printf format; one operation for all is faster than one each."""
    return (f"{form} " * len(numbers) % tuple(numbers)).split()


def float_text(value: float) -> str:
    """The JSON token of one double."""
    return float_texts(np.array([value], np.float64))[0]


def shortest_text(value: float) -> str:
    """A double as rapidjson's writer prints it: the fewest digits that parse back, plain from 1e-6 up to 1e21."""
    text = repr(value)
    if text in _SPECIAL:
        return _SPECIAL[text]
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        plain = format(Decimal(text), "f")
        return plain if "." in plain else f"{plain}.0"
    digits, exponent = text.split("e")
    return f"{digits}e{int(exponent)}"
