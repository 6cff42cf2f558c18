"""What this machine has."""

from __future__ import annotations

from model_repo_sync.runner.tensorflow_engine.machine import available_memory

__all__ = ["available_memory"]
