"""TensorFlow's dtypes: numbers, names, and the form in which Triton carries them."""

from __future__ import annotations

from dataclasses import dataclass

REFERENCE_OFFSET = 100
"""DT_FLOAT_REF is DT_FLOAT + 100, and so on."""


@dataclass(frozen=True, slots=True)
class DType:
    """One dtype of TensorFlow that Triton can carry.

    `number` and `enum_name` are those of tensorflow.DataType, `name` is TensorFlow's lower-case name as its error texts
    show it. `triton` is the datatype on the wire (`FP32`, `BYTES`), `numpy` the numpy dtype of one wire element.
    `itemsize` is the number of bytes of one element in TensorFlow's memory, 0 for strings, whose elements vary.
    `multiplicity` is the number of wire elements per element.
    """

    number: int
    name: str
    enum_name: str
    triton: str
    numpy: str
    itemsize: int
    multiplicity: int = 1

    @property
    def config_type(self) -> str:
        """The data_type of a Triton model configuration."""
        return "TYPE_STRING" if self.triton == "BYTES" else f"TYPE_{self.triton}"

    @property
    def is_string(self) -> bool:
        return self.triton == "BYTES"


_TABLE = (
    DType(1, "float", "DT_FLOAT", "FP32", "float32", 4),
    DType(2, "double", "DT_DOUBLE", "FP64", "float64", 8),
    DType(3, "int32", "DT_INT32", "INT32", "int32", 4),
    DType(4, "uint8", "DT_UINT8", "UINT8", "uint8", 1),
    DType(5, "int16", "DT_INT16", "INT16", "int16", 2),
    DType(6, "int8", "DT_INT8", "INT8", "int8", 1),
    DType(7, "string", "DT_STRING", "BYTES", "object", 0),
    DType(8, "complex64", "DT_COMPLEX64", "UINT64", "uint64", 8),
    DType(9, "int64", "DT_INT64", "INT64", "int64", 8),
    DType(10, "bool", "DT_BOOL", "BOOL", "bool", 1),
    DType(11, "qint8", "DT_QINT8", "INT8", "int8", 1),
    DType(12, "quint8", "DT_QUINT8", "UINT8", "uint8", 1),
    DType(13, "qint32", "DT_QINT32", "INT32", "int32", 4),
    DType(14, "bfloat16", "DT_BFLOAT16", "BF16", "uint16", 2),
    DType(15, "qint16", "DT_QINT16", "INT16", "int16", 2),
    DType(16, "quint16", "DT_QUINT16", "UINT16", "uint16", 2),
    DType(17, "uint16", "DT_UINT16", "UINT16", "uint16", 2),
    DType(18, "complex128", "DT_COMPLEX128", "FP64", "float64", 16, multiplicity=2),
    DType(19, "half", "DT_HALF", "FP16", "float16", 2),
    DType(22, "uint32", "DT_UINT32", "UINT32", "uint32", 4),
    DType(23, "uint64", "DT_UINT64", "UINT64", "uint64", 8),
    DType(24, "float8_e5m2", "DT_FLOAT8_E5M2", "UINT8", "uint8", 1),
    DType(25, "float8_e4m3fn", "DT_FLOAT8_E4M3FN", "UINT8", "uint8", 1),
    DType(29, "int4", "DT_INT4", "INT8", "int8", 1),
    DType(30, "uint4", "DT_UINT4", "UINT8", "uint8", 1),
)

DTYPES: dict[int, DType] = {dtype.number: dtype for dtype in _TABLE}
"""Every dtype that can be served, by TensorFlow's number. Four-bit types take one byte per element."""

BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in _TABLE}

UNSERVED_NAMES: dict[int, str] = {
    20: "resource",
    21: "variant",
    26: "float8_e4m3fnuz",
    27: "float8_e4m3b11fnuz",
    28: "float8_e5m2fnuz",
    31: "int2",
    32: "uint2",
    33: "float4_e2m1fn",
}
"""Dtypes that a graph can hold and no client can be served with, by number."""

DT_FLOAT = 1
DT_STRING = 7


def base(number: int) -> int:
    """`number` without the reference bit."""
    return number % REFERENCE_OFFSET


def name(number: int) -> str:
    """TensorFlow's name of a dtype, also of one that cannot be served; `_ref` marks a reference."""
    plain = base(number)
    known = DTYPES[plain].name if plain in DTYPES else UNSERVED_NAMES.get(plain, f"unknown dtype enum {plain}")
    return f"{known}_ref" if number > REFERENCE_OFFSET else known
