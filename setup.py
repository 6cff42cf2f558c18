"""Build steps of the distribution, for wheels and editable installs alike: protocol buffers, and the compiled parts.

Those are optional: without a C compiler the build goes on, plain code does the codec's work, and grpcio serves gRPC.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build_protos import SOURCES, generate


class BuildWithProtos(build_py):
    """Generates before the modules are listed; a wheel carries the .proto sources beside the generated modules."""

    def run(self) -> None:
        generate()
        super().run()
        if not self.editable_mode:
            self._copy_sources()

    def _copy_sources(self) -> None:
        target = Path(self.build_lib, "model_repo_sync", "protos")
        for source in sorted(SOURCES.glob("*/*.proto")):
            self.copy_file(str(source), str(target / source.relative_to(SOURCES)))


setup(
    cmdclass={"build_py": BuildWithProtos},
    ext_modules=[
        Extension(
            "bridge.codec.native._json_numbers",
            sources=["bridge/codec/native/json_numbers.c"],
            depends=["bridge/codec/native/json_numbers.c"],
            extra_compile_args=["-O3"],
            optional=True,
        ),
        Extension(
            "bridge.codec.native._predict",
            sources=["bridge/codec/native/predict.c"],
            depends=["bridge/codec/native/predict.c"],
            extra_compile_args=["-O3"],
            optional=True,
        ),
        Extension(
            "model_repo_sync.runner.tensorflow_engine.native._run",
            sources=["model_repo_sync/runner/tensorflow_engine/native/run.c"],
            depends=["model_repo_sync/runner/tensorflow_engine/native/run.c"],
            extra_compile_args=["-O2", "-fvisibility=hidden"],
            optional=True,
        ),
        Extension(
            "bridge.transport.native._http2",
            sources=["bridge/transport/native/http2.c"],
            depends=["bridge/transport/native/http2.c", "bridge/transport/native/nghttp2.h"],
            extra_compile_args=["-O2", "-fvisibility=hidden"],
            libraries=["dl"],
            optional=True,
        ),
    ],
)
