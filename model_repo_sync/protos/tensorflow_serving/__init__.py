"""TensorFlow Serving's messages and services."""
