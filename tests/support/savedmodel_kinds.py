"""Kinds of SavedModels. Runs only where TensorFlow may be imported: see tests.support.savedmodels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, saved_model_pb2

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


def callable_options(feeds: Iterable[str], fetches: Iterable[str]) -> Any:
    options = config_pb2.CallableOptions()
    options.feed.extend(feeds)
    options.fetch.extend(fetches)
    return options


def info(tensor: Any) -> Any:
    return v1.saved_model.build_tensor_info(tensor)


def signature(inputs: Mapping[str, Any], outputs: Mapping[str, Any], method: str = PREDICT) -> Any:
    return v1.saved_model.build_signature_def(
        {alias: info(tensor) for alias, tensor in inputs.items()},
        {alias: info(tensor) for alias, tensor in outputs.items()},
        method,
    )


def save(session: Any, destination: str, signatures: Mapping[str, Any], **options: Any) -> None:
    builder = v1.saved_model.Builder(destination)
    builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=dict(signatures), **options)
    builder.save()


def half_plus_two(destination: str, b: float = 2.0) -> None:
    """TF Serving's example model: y = 0.5 x + b, y2 = 0.5 x + 3, y3 = 0.5 x2 + 3."""
    with v1.Session(graph=tf.Graph()) as session:
        a = v1.get_variable("a", initializer=0.5, use_resource=False)
        bias = v1.get_variable("b", initializer=float(b), use_resource=False)
        c = v1.get_variable("c", initializer=3.0, use_resource=False)
        serialized = v1.placeholder(tf.string, name="tf_example")
        features = v1.parse_example(
            serialized,
            {
                "x": v1.FixedLenFeature([1], tf.float32),
                "x2": v1.FixedLenFeature([1], tf.float32, default_value=[0.0]),
            },
        )
        x, x2 = tf.identity(features["x"], "x"), tf.identity(features["x2"], "x2")
        y = tf.add(tf.multiply(a, x), bias, "y")
        y2 = tf.add(tf.multiply(a, x), c, "y2")
        y3 = tf.add(tf.multiply(a, x2), c, "y3")
        session.run(v1.global_variables_initializer())
        save(
            session,
            destination,
            {
                "serving_default": signature({"x": x}, {"y": y}),
                "classify_x_to_y": signature({"inputs": serialized}, {"scores": y}, CLASSIFY),
                "regress_x_to_y": signature({"inputs": serialized}, {"outputs": y}, REGRESS),
                "regress_x_to_y2": signature({"inputs": serialized}, {"outputs": y2}, REGRESS),
                "regress_x2_to_y3": signature({"inputs": x2}, {"outputs": y3}, REGRESS),
            },
        )


def wrong_tensor_info(destination: str) -> None:
    """half_plus_two whose TensorInfo of `x` says int32, scalar, while the graph's node is float."""
    half_plus_two(destination)
    with edited(destination) as saved_model:
        x = saved_model.meta_graphs[0].signature_def["serving_default"].inputs["x"]
        x.dtype = tf.int32.as_datatype_enum
        x.tensor_shape.Clear()


class edited:
    """The SavedModel message of a directory, written back at the end of the block."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, "saved_model.pb")

    def __enter__(self) -> Any:
        self._message = saved_model_pb2.SavedModel()
        with open(self._path, "rb") as file:
            self._message.ParseFromString(file.read())
        return self._message

    def __exit__(self, *_: object) -> None:
        with open(self._path, "wb") as file:
            file.write(self._message.SerializeToString())


def counter(destination: str) -> None:
    """TF1 reference variables; signatures without inputs that share state."""
    with v1.Session(graph=tf.Graph()) as session:
        count = v1.get_variable("counter", initializer=0.0, use_resource=False)
        delta = v1.placeholder_with_default(1.0, shape=[], name="delta")
        increment = v1.assign_add(count, delta, name="incr_counter_op")
        reset = v1.assign(count, 0.0, name="reset_counter_op")
        session.run(v1.global_variables_initializer())
        save(
            session,
            destination,
            {
                "get_counter": signature({}, {"output": count}),
                "incr_counter": signature({}, {"output": increment}),
                "incr_counter_by": signature({"delta": delta}, {"output": increment}),
                "reset_counter": signature({}, {"output": reset}),
            },
        )


def shared_state(destination: str) -> None:
    """TF2: what one signature sets, another sees."""

    class Shared(tf.Module):
        def __init__(self) -> None:
            self.value = tf.Variable([0.0, 0.0], shape=tf.TensorShape(None))
            self.name_of_state = tf.Variable(b"", dtype=tf.string)

        @tf.function(
            input_signature=[tf.TensorSpec(None, tf.float32, name="value"), tf.TensorSpec([], tf.string, name="name")]
        )
        def set(self, value: Any, name: Any) -> Any:
            self.value.assign(value)
            self.name_of_state.assign(name)
            return {"size": tf.size(value)}

        @tf.function(input_signature=[])
        def get(self) -> Any:
            return {"value": self.value.read_value(), "name": self.name_of_state.read_value()}

    module = Shared()
    tf.saved_model.save(module, destination, signatures={"set": module.set, "get": module.get})


def dtypes(destination: str) -> None:
    """One signature per dtype that returns its input, whatever the shape; `same` and `again` are the same tensor."""
    from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES

    with v1.Session(graph=tf.Graph()) as session:
        signatures = {}
        for number, dtype in DTYPES.items():
            x = v1.placeholder(tf.dtypes.as_dtype(number), name=f"in_{dtype.name}")
            y = tf.identity(x, f"out_{dtype.name}")
            signatures[dtype.name] = signature({"x": x}, {"same": y, "again": y})
        save(session, destination, signatures)


def arithmetic(destination: str) -> None:
    """Work on several dtypes at once: a dense layer, a sum of int64, joined strings, a complex product."""

    class Arithmetic(tf.Module):
        def __init__(self) -> None:
            weights = np.random.default_rng(7).standard_normal((16, 16)).astype(np.float32)
            self.weights = tf.Variable(weights)

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 16], tf.float32, name="features"),
                tf.TensorSpec([None], tf.int64, name="counts"),
                tf.TensorSpec(None, tf.string, name="words"),
                tf.TensorSpec([None], tf.complex128, name="phases"),
            ]
        )
        def work(self, features: Any, counts: Any, words: Any, phases: Any) -> Any:
            return {
                "dense": tf.nn.softmax(tf.nn.relu(features @ self.weights) @ self.weights),
                "total": tf.reduce_sum(counts),
                "joined": tf.strings.join([words, words], separator="\x00"),
                "squared": phases * phases,
                "half": tf.cast(features, tf.bfloat16) * tf.cast(2.0, tf.bfloat16),
            }

    module = Arithmetic()
    tf.saved_model.save(module, destination, signatures={"serving_default": module.work})


def strings(destination: str) -> None:
    """Strings of any bytes: upper and length of each, a vocabulary from an asset, a mutable table."""
    vocabulary = destination + ".vocabulary"
    with open(vocabulary, "wb") as file:
        file.write(b"apple\nb\xff\xfe\nna\xc3\xafve\n")

    class Strings(tf.Module):
        def __init__(self) -> None:
            self.asset = tf.saved_model.Asset(vocabulary)
            initializer = tf.lookup.TextFileInitializer(
                self.asset, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            )
            self.table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=2)
            self.notes = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, b"none")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
        def look_up(self, words: Any) -> Any:
            return {"ids": self.table.lookup(words), "length": tf.strings.length(words), "words": tf.identity(words)}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.int64, name="keys"),
                tf.TensorSpec([None], tf.string, name="values"),
            ]
        )
        def note(self, keys: Any, values: Any) -> Any:
            self.notes.insert(keys, values)
            return {"size": self.notes.size()}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="keys")])
        def recall(self, keys: Any) -> Any:
            return {"values": self.notes.lookup(keys)}

    module = Strings()
    signatures = {"serving_default": module.look_up, "note": module.note, "recall": module.recall}
    try:
        tf.saved_model.save(module, destination, signatures=signatures)
    finally:
        os.remove(vocabulary)


def declared_one(destination: str) -> None:
    """An input declared `[1]` and one of unknown rank; doubling takes any shape, which TF Serving lets through."""
    with v1.Session(graph=tf.Graph()) as session:
        one = v1.placeholder(tf.float32, [1], name="one")
        any_rank = v1.placeholder(tf.float32, None, name="any_rank")
        save(
            session,
            destination,
            {
                "serving_default": signature({"x": one}, {"y": tf.add(one, one, "doubled")}),
                "unknown_rank": signature(
                    {"x": any_rank},
                    {"y": tf.add(any_rank, any_rank, "doubled_any"), "shape": tf.shape(any_rank, name="shape")},
                ),
            },
        )


def failures(destination: str) -> None:
    """Signatures that fail in the ways models fail: an assert, a bad reshape, a gather out of range."""

    class Failures(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
        def small(self, x: Any) -> Any:
            tf.debugging.assert_less(x, 10.0, message="x too big")
            return {"y": x}

        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([None], tf.int32, name="shape")]
        )
        def reshape(self, x: Any, shape: Any) -> Any:
            return {"y": tf.reshape(x, shape)}

        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([], tf.int32, name="index")]
        )
        def gather(self, x: Any, index: Any) -> Any:
            return {"y": tf.gather(x, index)}

    module = Failures()
    tf.saved_model.save(
        module,
        destination,
        signatures={"serving_default": module.small, "reshape": module.reshape, "gather": module.gather},
    )


def slow(destination: str, size: int = 512, layers: int = 20) -> None:
    """A loop of `rounds` matrix products: as slow as the caller wants it, without a Python op."""
    with v1.Session(graph=tf.Graph()) as session:
        rounds = v1.placeholder(tf.int32, [], name="rounds")
        x = v1.placeholder(tf.float32, [None], name="x")
        matrix = tf.constant(np.eye(size, dtype=np.float32))

        def body(index: Any, value: Any) -> Any:
            return index + 1, value @ matrix

        _, product = v1.while_loop(
            lambda index, _: index < rounds * layers, body, (tf.constant(0), tf.identity(matrix)), parallel_iterations=1
        )
        y = tf.add(x, product[0, 0], name="y")
        save(session, destination, {"serving_default": signature({"x": x, "rounds": rounds}, {"y": y})})


def unstable(destination: str) -> None:
    """Its init op fails, so that the SavedModel cannot load."""
    with v1.Session(graph=tf.Graph()) as session:
        x = v1.placeholder(tf.float32, name="x")
        y = tf.identity(x, "y")
        failing = v1.Assert(tf.constant(False), ["the init op refuses"], name="init_fails")
        save(session, destination, {"serving_default": signature({"x": x}, {"y": y})}, main_op=tf.group(failing))


def identity(destination: str, dtype: str = "float32") -> None:
    """y = x, for speed."""
    with v1.Session(graph=tf.Graph()) as session:
        x = v1.placeholder(tf.dtypes.as_dtype(dtype), [None], name="x")
        save(session, destination, {"serving_default": signature({"x": x}, {"y": tf.identity(x, "y")})})


def heads(destination: str) -> None:
    """Signatures on serialized Examples with the features x, y and z: good ones for Classify and Regress, and bad."""
    with v1.Session(graph=tf.Graph()) as session:
        serialized, other = (v1.placeholder(tf.string, [None], name) for name in ("tf_example", "other_example"))
        optional = v1.FixedLenFeature([1], tf.float32, default_value=[0.0])
        features = v1.parse_example(serialized, {"x": optional, "y": optional})
        x, y = features["x"], features["y"]
        required = v1.parse_example(serialized, {"z": v1.FixedLenFeature([1], tf.float32)}, name="ParseZ")["z"]
        other_x = v1.parse_example(other, {"x": optional})["x"]
        count = tf.shape(serialized)[0]
        labels, more_labels = (tf.tile([["a", "b", "c"]], [rows, 1]) for rows in (count, count + 1))
        scores = tf.concat([-x, 0 * x, x], 1)
        more_scores = tf.concat([scores, [[0.0, 0.0, 0.0]]], 0)
        runs = v1.get_variable("runs", initializer=0.0, use_resource=False)
        counted = v1.assign_add(runs, 1.0) + 0 * x
        session.run(v1.global_variables_initializer())

        def classify(method: str = CLASSIFY, **outputs: Any) -> Any:
            return signature({"inputs": serialized}, outputs, method)

        def regress(outputs: Any, method: str = REGRESS, inputs: Any = serialized) -> Any:
            return signature({"inputs": inputs}, {"outputs": outputs}, method)

        save(
            session,
            destination,
            {
                "serving_default": classify(classes=labels, scores=scores),
                "classes": classify(classes=labels),
                "scores": classify(scores=scores),
                "counted_scores": classify(scores=counted),
                "needs_z": classify(scores=required),
                "classes_of_rank_3": classify(classes=tf.expand_dims(labels, 0)),
                "scores_of_rank_1": classify(scores=tf.reshape(scores, [-1])),
                "float_classes": classify(classes=scores),
                "double_scores": classify(scores=tf.cast(scores, tf.float64)),
                "more_classes": classify(classes=more_labels),
                "more_scores": classify(scores=more_scores),
                "two_classes": classify(classes=labels[:, :2], scores=scores),
                "same_tensor": classify(classes=labels, scores=labels),
                "third_output": classify(classes=labels, scores=scores, other=y),
                "strange_outputs": classify(y=y),
                "sum": regress(x + y),
                "flat": regress(tf.reshape(x, [-1])),
                "counted_outputs": regress(counted),
                "other_input": regress(other_x, inputs=other),
                "wide": regress(scores),
                "scalar": regress(tf.reduce_sum(x)),
                "double_outputs": regress(tf.cast(x, tf.float64)),
                "more_outputs": regress(more_scores[:, :1]),
                "two_outputs": signature({"inputs": serialized}, {"outputs": x, "other": y}, REGRESS),
                "two_inputs": signature({"inputs": serialized, "more": other}, {"scores": x, "outputs": x}, CLASSIFY),
                "renamed_input": signature({"examples": serialized}, {"scores": x}, CLASSIFY),
                "renamed_output": signature({"inputs": serialized}, {"y": x}, REGRESS),
                "predict_method": regress(x + y, PREDICT),
                "odd_method": regress(x + y, "not/supported/method"),
            },
        )


def custom_op(destination: str, library: str) -> None:
    """y = -x by the op of negate_op.c, which `library` holds."""
    ops = tf.load_op_library(library)
    with v1.Session(graph=tf.Graph()) as session:
        x = v1.placeholder(tf.float32, name="x")
        y = tf.identity(ops.bridge_test_negate(x), name="y")
        save(session, destination, {"serving_default": signature({"x": x}, {"y": y})})


def text(destination: str) -> None:
    """Words, split at blanks and normalised by ops of TensorFlow Text."""
    import tensorflow_text

    with v1.Session(graph=tf.Graph()) as session:
        x = v1.placeholder(tf.string, [None], name="x")
        words = tensorflow_text.WhitespaceTokenizer().tokenize(x).flat_values
        y = tf.identity(tensorflow_text.case_fold_utf8(words), name="y")
        save(session, destination, {"serving_default": signature({"x": x}, {"y": y})})


def large(destination: str) -> None:
    """Much in and little out by serving_default, little in and much out by `much`: `count` values of a sine."""
    with v1.Session(graph=tf.Graph()) as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        count = v1.placeholder(tf.int32, [], name="count")
        save(
            session,
            destination,
            {
                "serving_default": signature({"x": x}, {"sum": tf.reduce_sum(x, keepdims=True, name="sum")}),
                "much": signature({"count": count}, {"y": tf.sin(tf.cast(tf.range(count), tf.float32), "y")}),
            },
        )


def echo(destination: str) -> None:
    """Signatures that answer what they are sent: one per dtype, x to y, and some with several inputs or odd outputs."""
    from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES

    with v1.Session(graph=tf.Graph()) as session:
        signatures = {}
        for number, dtype in DTYPES.items():
            x = v1.placeholder(tf.dtypes.as_dtype(number), name=f"in_{dtype.name}")
            signatures[dtype.name] = signature({"x": x}, {"y": tf.identity(x)})
        kinds = {
            "int_tensor": tf.int32,
            "str_tensor": tf.string,
            "bin_tensor": tf.string,
            "float_tensor": tf.float32,
            "dbl_tensor": tf.float64,
        }
        inputs = {name: v1.placeholder(kind, name=name) for name, kind in kinds.items()}
        outputs = {name: tf.identity(tensor) for name, tensor in inputs.items()}

        def several(*names: str, **more: Any) -> Any:
            return signature({name: inputs[name] for name in names}, {name: outputs[name] for name in names} | more)

        signatures["mixed"] = several("int_tensor", "str_tensor", "float_tensor", "dbl_tensor")
        signatures["encoded"] = several("int_tensor", "str_tensor", str_bytes=outputs["str_tensor"])
        signatures["binary"] = several("int_tensor", "str_tensor", "bin_tensor")
        numbers = inputs["float_tensor"]
        odd = {"scalar": tf.reduce_sum(numbers), "uneven": numbers[:1], "none": numbers[:0]}
        for name, output in odd.items():
            signatures[name] = signature(
                {"x": numbers}, {"y": output, "z": outputs["float_tensor"]} if name == "uneven" else {"y": output}
            )
        save(session, destination, signatures)


def defaults(destination: str) -> None:
    """total = a + b: `serving_default` has 5 as the default of b, `bare` needs both, `unfed` never asks for b."""
    with v1.Session(graph=tf.Graph()) as session:
        a, b = (v1.placeholder(tf.float32, name=name) for name in "ab")
        total = {"total": tf.add(a, b, "total")}
        filled = signature({"a": a, "b": b}, total)
        filled.defaults["b"].CopyFrom(tf.make_tensor_proto(5.0))
        signatures = {
            "serving_default": filled,
            "bare": signature({"a": a, "b": b}, total),
            "unfed": signature({"a": a}, total),
        }
        save(session, destination, signatures)
