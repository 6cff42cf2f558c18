"""The wire subset of TensorFlow core."""
