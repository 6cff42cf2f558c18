"""Syncs TensorFlow SavedModel directories into a Triton model repository. Usable without `bridge`."""
