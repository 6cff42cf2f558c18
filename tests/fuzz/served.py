"""The two ports with everything behind them but Triton: a test double computes what models answer, for volume."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import orjson

from bridge.errors import InvalidArgument
from bridge.lifecycle.configuration import Rules, requested
from bridge.serving.control import RoutesView
from bridge.serving.infer import InferenceCore, InferenceSettings
from bridge.serving.legs import LegPool
from bridge.serving.observer import Observers
from bridge.serving.routes import Routes, ServableRoute, SignatureRoute, TensorRoute
from bridge.tfserving.batching_metrics import BatchingMetrics
from bridge.tfserving.grpc_server import GrpcServer
from bridge.tfserving.metrics import ServingMetrics
from bridge.tfserving.metrics_page import DEFAULT_PATH, MetricsPage
from bridge.tfserving.rest_server import RestServer
from bridge.tfserving.rpc import Caller
from bridge.triton.calls import ModelCall, WireTensor
from model_repo_sync.protos.tensorflow_serving.model_server_config_pb2 import ModelServerConfig
from model_repo_sync.runner.tensorflow_engine.dtypes import DT_FLOAT, DT_STRING, DTYPES
from tests.fuzz.vocabulary import LABEL, MODEL
from tests.serving import snapshots
from tests.tfserving.server_thread import SilentControl

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"
INT32, INT64 = 3, 9
FP32, BYTES = "FP32", "BYTES"

ODD: Sequence[WireTensor] = (
    WireTensor("", FP32, (), bytes(4)),
    WireTensor("", FP32, (0, 2), b""),
    WireTensor("", FP32, (1, 2), np.array([np.nan, -np.inf], np.float32).tobytes()),
    WireTensor("", FP32, (1, 1, 1), bytes(4)),
    WireTensor("", FP32, (3, 1), bytes(12)),
    WireTensor("", "INT8", (1, 2), bytes(2)),
    WireTensor("", "FP16", (1,), bytes(2)),
    WireTensor("", BYTES, (1, 2), b"\x03\0\0\0a\xff\xfe\0\0\0\0"),
    WireTensor("", BYTES, (0,), b""),
)
"""What a model answers that keeps to no shape or dtype."""


class ModelDouble:
    """Stands for Triton: half_plus_two by the version in the model's name, inputs echoed, or odd answers."""

    async def infer(self, call: ModelCall, timeout: float) -> list[WireTensor]:
        return [self._answer(call, name) for name in call.outputs]

    async def close(self) -> None: ...

    def _answer(self, call: ModelCall, name: str) -> WireTensor:
        source, shape = _source(call, name)
        if name.startswith("odd"):
            return ODD[zlib.crc32(bytes(source.data) + name.encode()) % len(ODD)]._replace(name=name)
        if name.startswith("echo") or source.datatype not in (FP32, BYTES):
            return WireTensor(name, source.datatype, shape, source.data)
        if source.datatype == BYTES:
            count = int(np.prod(shape))
            return WireTensor(name, FP32, (count, 1), np.full(count, 2.0, np.float32).tobytes())
        bias = float(call.model.rpartition(".")[2])
        with np.errstate(all="ignore"):
            values = np.frombuffer(source.data, np.float32) / 2 + np.float32(bias)
        return WireTensor(name, FP32, shape, values.astype(np.float32).tobytes())


def _source(call: ModelCall, output: str) -> tuple[WireTensor, tuple[int, ...]]:
    """The input that an output is computed from, and its true shape."""
    inputs = {tensor.name: tensor for tensor in call.inputs}
    source = inputs.get(output.partition(" ")[2]) or call.inputs[0]
    shapes = orjson.loads(call.parameters.get("shapes", "{}"))
    pairs = source.name == "in_complex128:0"
    flat = [source.shape[0] // 2] if pairs else source.shape
    return source, (*shapes.get(source.name, flat), *([2] if pairs else []))


def routes() -> Routes:
    """The models of tests.fuzz.vocabulary."""
    numbered = [_servable(MODEL, version, _half_plus_two()) for version in (1, 123)]
    dtypes = [_echo(dtype.name, number) for number, dtype in DTYPES.items()]
    return snapshots.routes(
        snapshots.model(MODEL, numbered, {LABEL: 1, "gone": 7}, ended=[9]),
        snapshots.model("dtypes", [_servable("dtypes", 1, dtypes)]),
        snapshots.model("strings", [_servable("strings", 1, [_strings()])]),
        snapshots.model("odd", [_servable("odd", 1, _odd())]),
    )


def _servable(model: str, version: int, signatures: Sequence[SignatureRoute]) -> ServableRoute:
    return replace(
        snapshots.servable(model, version),
        triton_name=f"tfs.00000000.{model}.{version}",
        signatures={signature.name: signature for signature in signatures},
    )


def _signature(name: str, source: tuple[str, str, int], outputs: Mapping[str, str], method: str = "") -> SignatureRoute:
    alias, tensor, dtype = source
    routes = tuple(TensorRoute(key, value, DT_FLOAT) for key, value in sorted(outputs.items()))
    return SignatureRoute(name, method or "tensorflow/serving/predict", (TensorRoute(alias, tensor, dtype),), routes)


def _half_plus_two() -> list[SignatureRoute]:
    examples = ("inputs", "tf_example:0", DT_STRING)
    return [
        _signature("serving_default", ("x", "x:0", DT_FLOAT), {"y": "y:0"}),
        _signature("classify_x_to_y", examples, {"scores": "y:0"}, CLASSIFY),
        _signature("regress_x_to_y", examples, {"outputs": "y:0"}, REGRESS),
        _signature("regress_x_to_y2", examples, {"outputs": "y2:0"}, REGRESS),
        _signature("regress_x2_to_y3", ("inputs", "x2:0", DT_FLOAT), {"outputs": "y3:0"}, REGRESS),
    ]


def _echo(name: str, dtype: int) -> SignatureRoute:
    same = TensorRoute("same", f"echo in_{name}:0", dtype)
    return SignatureRoute(name, "", (TensorRoute("x", f"in_{name}:0", dtype),), (replace(same, alias="again"), same))


def _strings() -> SignatureRoute:
    echo = TensorRoute("words", "echo words:0", DT_STRING)
    return SignatureRoute("serving_default", "", (TensorRoute("words", "words:0", DT_STRING),), (echo,))


def _odd() -> list[SignatureRoute]:
    examples = ("inputs", "tf_example:0", DT_STRING)
    three = {"x": DT_FLOAT, "words": DT_STRING, "y": INT64}
    inputs = tuple(TensorRoute(alias, f"{alias}:0", dtype) for alias, dtype in sorted(three.items()))
    outputs = tuple(TensorRoute(alias, f"odd {alias}:0", DT_FLOAT) for alias in ("again", "same", "y_bytes"))
    defaults = {"y": snapshots.one_float(1)}
    return [
        SignatureRoute("serving_default", "", inputs, outputs, defaults),
        _signature("classify_x_to_y", examples, {"scores": "odd y:0", "classes": "odd c:0"}, CLASSIFY),
        _signature("regress_x_to_y", examples, {"outputs": "odd y:0"}, REGRESS),
        SignatureRoute("float", "", (), (TensorRoute("y", "odd y:0", INT32),)),
        SignatureRoute("string", "", (), (), problem="Signature string cannot be served: input r is a resource."),
    ]


class Now:
    """What a reload is checked against."""

    def platform(self, model: str) -> str | None:
        return "tensorflow" if model == MODEL else None

    def label(self, model: str, label: str) -> int | None:
        return 1 if (model, label) == (MODEL, LABEL) else None

    def is_available(self, model: str, version: int) -> bool:
        return model == MODEL and version in (1, 123)


async def reload(config: ModelServerConfig, caller: Caller) -> None:
    """All checks of a new configuration, without its effect."""
    for model in requested(config, Now(), Rules(unavailable_labels=True)).models:
        if not model.name:
            raise InvalidArgument("A model without a name")


class Served:
    """The ports, on an event loop in a thread: `grpc` and `rest` are HOST:PORT."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.grpc, self.rest = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> tuple[str, str]:
        view = RoutesView()
        legs = LegPool(lambda instance: ModelDouble())
        metrics = ServingMetrics()
        self._core = InferenceCore(view, legs, SilentControl(), InferenceSettings(), Observers([metrics]))
        view.publish(routes())
        page = MetricsPage(DEFAULT_PATH, BatchingMetrics(None, metrics).page)
        self._grpc = GrpcServer(self._core, reload=reload, metric=metrics.first_value)
        self._rest = RestServer(self._core, cors=True, page=page)
        ports = await self._grpc.start("127.0.0.1:0"), await self._rest.start("127.0.0.1", 0)
        return f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"

    async def _stop(self) -> None:
        await self._grpc.stop(1)
        await self._rest.stop(1)
        await self._core.close()
