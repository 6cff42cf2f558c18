"""What TensorFlow itself makes of a serialized TensorProto: one JSON line per question, one per answer.

Run as a process of its own, so that the tests' process never holds TensorFlow.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2


def parse(data: bytes) -> dict[str, Any]:
    """Tensor::FromProto, and Tensor::AsProtoTensorContent of its result."""
    dtype = tensor_pb2.TensorProto.FromString(data).dtype
    try:
        tensor = tf.io.parse_tensor(data, tf.dtypes.as_dtype(dtype))
    except (tf.errors.OpError, TypeError) as error:
        return {"error": str(error)}
    return described(tensor.numpy(), tuple(tensor.shape)) | {"serialized": serialized(tensor)}


def serialized(tensor: tf.Tensor) -> str | None:
    """None for the dtypes that TensorFlow's operation does not take."""
    try:
        return tf.io.serialize_tensor(tensor).numpy().hex()
    except tf.errors.NotFoundError:
        return None


def ndarray(data: bytes) -> dict[str, Any]:
    """tf.make_ndarray, which is how Python clients read a response."""
    array = tf.make_ndarray(tensor_pb2.TensorProto.FromString(data))
    return described(array, array.shape)


def tensor_proto(dtype: int, shape: list[int], elements: bytes) -> dict[str, Any]:
    """tf.make_tensor_proto of an array, which is how Python clients write a request."""
    array = np.frombuffer(elements, tf.dtypes.as_dtype(dtype).as_numpy_dtype).reshape(shape)
    return {"serialized": tf.make_tensor_proto(array).SerializeToString().hex()}


def described(array: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    flat = np.asarray(array).reshape(-1)
    if flat.dtype == object or flat.dtype.kind == "S":
        return {"shape": list(shape), "strings": [bytes(item).hex() for item in flat.tolist()]}
    return {"shape": list(shape), "data": flat.tobytes().hex()}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    data = bytes.fromhex(question["data"])
    if question["ask"] == "tensor_proto":
        return tensor_proto(question["dtype"], question["shape"], data)
    return parse(data) if question["ask"] == "parse" else ndarray(data)


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception:
            reply = {"failure": traceback.format_exc()}
        print(json.dumps(reply), flush=True)
