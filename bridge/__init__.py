"""Serves TensorFlow Serving and ModelMesh clients from NVIDIA Triton."""

__version__ = "0.1.0"
