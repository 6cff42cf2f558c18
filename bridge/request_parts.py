"""The request path of a server: the snapshot that it reads, the legs to Triton, and who watches requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bridge.client_inputs import ClientInputs
from bridge.modelmesh.mesh_metrics import MeshMetrics
from bridge.modelmesh.request_meter import RunMeter
from bridge.parts import Parts
from bridge.serving.control import Control, RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.legs import LegPool
from bridge.serving.observer import Observers
from bridge.serving.routes import InstanceRoute
from bridge.serving.runners import Runners
from bridge.settings import Settings
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.record_files import RecordFiles
from bridge.telemetry.request_log import RequestLog
from bridge.tfserving.metrics import ServingMetrics
from bridge.triton.calls import InferenceLeg
from bridge.triton.leg import open_leg, shared_memory


@dataclass(frozen=True)
class Meters:
    """The metrics of the three faces of this server: its own, TF Serving's and ModelMesh's."""

    own: Metrics
    serving: ServingMetrics
    mesh: MeshMetrics

    def take(self) -> dict[str, Any]:
        """What was counted, as JSON; it is not counted here any more. Empty where nothing was."""
        taken = {"own": self.own.take(), "serving": self.serving.take(), "mesh": self.mesh.take()}
        return {name: counts for name, counts in taken.items() if counts}

    def merge(self, taken: Mapping[str, Any]) -> None:
        """Count what was taken in another process."""
        self.own.merge(taken.get("own", {}))
        self.serving.merge(taken.get("serving", {}))
        self.mesh.merge(taken.get("mesh", {}))


@dataclass(frozen=True)
class RequestPath:
    """What the shells call, what it sees of the routes, and the runners behind it."""

    core: InferenceCore
    view: RoutesView
    runners: Runners


def request_path(inputs: ClientInputs, view: RoutesView, control: Control, meters: Meters, parts: Parts) -> RequestPath:
    """The request path, started."""
    settings = inputs.settings
    files = RecordFiles(settings.request_log_file_bytes)
    parts.on_close(lambda: asyncio.to_thread(files.close))
    log = RequestLog(view, files, inputs.tags, meters.serving.logged)
    runs = [RunMeter(meters.mesh, view)] if settings.modelmesh_port else []
    memory = shared_memory(settings.triton_shared_memory_threshold, settings.triton_shared_memory_bytes)

    def leg(route: InstanceRoute) -> InferenceLeg:
        observer = partial(meters.own.triton_calls, route.name)
        return open_leg(route, settings.triton_http_body_limit, memory, observer)

    legs = LegPool(leg)
    core = InferenceCore(view, legs, control, _times(settings), Observers([meters.serving, log, *runs]))
    core.start()
    parts.on_close(core.close)
    return RequestPath(core, view, Runners(view, legs))


def _times(settings: Settings) -> InferenceSettings:
    return InferenceSettings(
        recovery_wait=settings.recovery_wait_ms / 1000,
        request_timeout=float(settings.request_timeout_seconds),
        queue_size=settings.runner_queue_size,
        check_method_names=settings.enable_signature_method_name_check,
        load_wait=float(settings.modelmesh_load_wait_seconds),
    )
