"""The Triton python-based backend `tensorflow_runner`: this directory is what Triton's backend directory holds."""
