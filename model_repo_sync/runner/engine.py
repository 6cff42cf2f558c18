"""The engine process that runs the SavedModels of one device; the first runner that needs it starts it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Started by its path, as Triton starts model.py: the package lies beside it.
sys.path.insert(0, str(Path(__file__).resolve().parent))

if TYPE_CHECKING:
    from model_repo_sync.runner.tensorflow_engine import engine
else:
    from tensorflow_engine import engine

if __name__ == "__main__":
    sys.exit(engine.main(sys.argv[1:]))
