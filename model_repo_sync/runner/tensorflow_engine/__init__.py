"""SavedModels run by TensorFlow's C API inside Triton's Python stub, without importing tensorflow.

Self-contained: standard library, numpy and Triton's `triton_python_backend_utils` only, with relative imports, since
the stub imports it as a top-level package from wherever the backend directory lies.
"""

from __future__ import annotations

__version__ = "0.1.0"
