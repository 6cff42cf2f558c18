"""A start that waits for its models, as tensorflow_model_server does before it opens a port."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.errors import BridgeError, Code
from bridge.lifecycle.control_plane import ControlPlane
from bridge.serving.routes import VersionStatus


async def wait_for_models(plane: ControlPlane) -> None:
    """Return once every configured model that has something to load serves a version.

    Raises BridgeError UNKNOWN with TF Serving's sentence (load_servables_fast.cc) when one of them ended in error.
    """
    while True:
        progress = plane.progress()
        verdicts = plane.verdicts()
        if all(verdicts.values()):
            break
        await progress.wait()
    failures = {name: status for name, status in verdicts.items() if status and status.code is not Code.OK}
    if failures:
        raise BridgeError(_sentence(failures), Code.UNKNOWN)


def _sentence(failures: Mapping[str, VersionStatus]) -> str:
    reasons = "".join(
        f"{{{{name: {name} version: {status.version}}} due to error: {status.code.name}: {status.message}}}, "
        for name, status in failures.items()
    )
    return f"{len(failures)} servable(s) did not become available: {{{reasons}}}"
