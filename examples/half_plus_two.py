"""Writes TF Serving's example model with TensorFlow: half_plus_two.py [--bias BIAS] DIRECTORY...

y = 0.5 x + BIAS (2 for the first directory, 1 more for each further one), with the classify and regress signatures that
TF Serving's model of this name has. A directory appears whole, as one that is dropped into a served base path has to.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

v1 = tf.compat.v1

CLASSIFY = "tensorflow/serving/classify"
PREDICT = "tensorflow/serving/predict"
REGRESS = "tensorflow/serving/regress"


def export(directory: Path, bias: float = 2.0) -> None:
    """Write the SavedModel `directory`, which must not exist."""
    if directory.exists():
        raise SystemExit(f"'{directory}' exists already")
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = directory.with_name(f".{directory.name}.staging")
    with v1.Session(graph=tf.Graph()) as session:
        signatures = build(bias)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(staging))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()
    staging.rename(directory)


def build(bias: float) -> dict[str, Any]:
    """Add the graph to the default one; returns its signatures."""
    a = v1.get_variable("a", initializer=0.5, use_resource=False)
    b = v1.get_variable("b", initializer=bias, use_resource=False)
    c = v1.get_variable("c", initializer=3.0, use_resource=False)
    serialized = v1.placeholder(tf.string, name="tf_example")
    x2_feature = v1.FixedLenFeature([1], tf.float32, default_value=[0.0])
    features = v1.parse_example(serialized, {"x": v1.FixedLenFeature([1], tf.float32), "x2": x2_feature})
    x, x2 = tf.identity(features["x"], "x"), tf.identity(features["x2"], "x2")
    y = tf.add(tf.multiply(a, x), b, "y")
    y2 = tf.add(tf.multiply(a, x), c, "y2")
    y3 = tf.add(tf.multiply(a, x2), c, "y3")
    return {
        "serving_default": signature(PREDICT, {"x": x}, {"y": y}),
        "classify_x_to_y": signature(CLASSIFY, {"inputs": serialized}, {"scores": y}),
        "regress_x_to_y": signature(REGRESS, {"inputs": serialized}, {"outputs": y}),
        "regress_x_to_y2": signature(REGRESS, {"inputs": serialized}, {"outputs": y2}),
        "regress_x2_to_y3": signature(REGRESS, {"inputs": x2}, {"outputs": y3}),
    }


def signature(method: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    info = v1.saved_model.build_tensor_info
    return v1.saved_model.build_signature_def(
        {alias: info(tensor) for alias, tensor in inputs.items()},
        {alias: info(tensor) for alias, tensor in outputs.items()},
        method,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes half_plus_two as a SavedModel.")
    parser.add_argument("directory", type=Path, nargs="+")
    parser.add_argument("--bias", type=float, default=2.0)
    arguments = parser.parse_args()
    for position, directory in enumerate(arguments.directory):
        export(directory, arguments.bias + position)


if __name__ == "__main__":
    main()
