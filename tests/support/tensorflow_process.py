"""The child of `tests.support.savedmodels`: makes SavedModels and runs them in TensorFlow's own session."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from tests.support import savedmodel_kinds

sessions: dict[str, tf.compat.v1.Session] = {}


def make(kind: str, destination: str, **options: Any) -> None:
    getattr(savedmodel_kinds, kind)(destination, **options)


def run(directory: str, feeds: dict[str, tuple[int, tuple[int, ...], Any]], fetches: list[str]) -> list[Any]:
    session = sessions.get(directory)
    if session is None:
        session = sessions[directory] = load(directory)
    # The callable skips the shape check of Session.run, as TF Serving and the C API do.
    options = savedmodel_kinds.callable_options(list(feeds), fetches)
    call = session._make_callable_from_options(options)
    values = call(*(to_numpy(*feed) for feed in feeds.values()))
    graph = session.graph
    # numpy has no quantized dtypes: the graph knows better.
    dtypes = [graph.get_tensor_by_name(fetch).dtype.base_dtype.as_datatype_enum for fetch in fetches]
    return [from_numpy(dtype, value) for dtype, value in zip(dtypes, values, strict=True)]


def load(directory: str) -> tf.compat.v1.Session:
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        tf.compat.v1.saved_model.load(session, ["serve"], directory)
    return session


def to_numpy(dtype: int, shape: tuple[int, ...], data: bytes | list[bytes]) -> Any:
    if isinstance(data, list):
        array = np.empty(len(data), object)
        array[:] = data
        return array.reshape(shape)
    return np.frombuffer(data, tf.dtypes.as_dtype(dtype).as_numpy_dtype).reshape(shape)


def from_numpy(dtype: int, value: Any) -> tuple[int, tuple[int, ...], bytes | list[bytes]]:
    if dtype == types_pb2.DT_STRING:
        array = np.asarray(value, object)
        return dtype, array.shape, [bytes(item) for item in array.ravel()]
    array = np.asarray(value)
    return dtype, array.shape, array.tobytes()


def signatures(directory: str) -> dict[str, Any]:
    saved_model = saved_model_pb2.SavedModel()
    with open(os.path.join(directory, "saved_model.pb"), "rb") as file:
        saved_model.ParseFromString(file.read())
    meta_graph = saved_model.meta_graphs[0]
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(meta_graph.graph_def, name="")

    def sides(infos: Any) -> dict[str, tuple[str, int, int]]:
        return {
            alias: (info.name, graph.get_tensor_by_name(info.name).dtype.as_datatype_enum, info.dtype)
            for alias, info in infos.items()
        }

    return {
        name: {
            "inputs": sides(signature.inputs),
            "outputs": sides(signature.outputs),
            "method": signature.method_name,
        }
        for name, signature in meta_graph.signature_def.items()
        if not name.startswith("__saved_model")
    }


def dtypes() -> dict[int, tuple[str, int]]:
    """Enum name and bytes per element of each dtype, references left out."""
    return {
        number: (name, tf.dtypes.as_dtype(number).size or 0)
        for name, number in types_pb2.DataType.items()
        if 0 < number < 100
    }


def records(path: str) -> list[bytes]:
    return list(tf.compat.v1.io.tf_record_iterator(path))


FUNCTIONS = {"make": make, "run": run, "signatures": signatures, "dtypes": dtypes, "records": records}


def answer(function: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "ok", FUNCTIONS[function](*arguments, **options)
    except tf.errors.OpError as error:
        return "tensorflow", (error.error_code, error.message)
    except Exception:
        return "failed", traceback.format_exc()


def main() -> None:
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what TensorFlow prints must not mix with the answers
    while True:
        try:
            call = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(answer(*call), answers)
        answers.flush()


if __name__ == "__main__":
    main()
