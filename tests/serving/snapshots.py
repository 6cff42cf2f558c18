"""Routes snapshots of half_plus_two models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.errors import Code
from bridge.serving.routes import (
    InstanceRoute,
    ModelRoute,
    Routes,
    ServableRoute,
    SignatureRoute,
    TensorRoute,
    VersionState,
    VersionStatus,
)
from model_repo_sync.protos.tensorflow import meta_graph_pb2, tensor_pb2
from model_repo_sync.protos.tensorflow_serving import get_model_metadata_pb2

FLOAT, INT32, STRING, COMPLEX128 = 1, 3, 7, 18


def signature(
    name: str,
    inputs: Mapping[str, tuple[str, int]],
    outputs: Mapping[str, tuple[str, int]],
    defaults: Mapping[str, bytes] | None = None,
    problem: str = "",
) -> SignatureRoute:
    """A signature; `inputs` and `outputs` map an alias to a graph tensor and its dtype."""
    return SignatureRoute(
        name=name,
        method_name="tensorflow/serving/predict",
        inputs=tuple(TensorRoute(alias, *tensor) for alias, tensor in sorted(inputs.items())),
        outputs=tuple(TensorRoute(alias, *tensor) for alias, tensor in sorted(outputs.items())),
        defaults=defaults or {},
        problem=problem,
    )


def one_float(value: float) -> bytes:
    """A serialized scalar TensorProto."""
    return tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape={}, float_val=[value]).SerializeToString()


SIGNATURES = (
    signature("serving_default", {"x": ("x:0", FLOAT)}, {"y": ("y:0", FLOAT)}),
    signature("regress_x2_to_y3", {"inputs": ("x2:0", FLOAT)}, {"outputs": ("y3:0", FLOAT)}),
    signature("add", {"a": ("b:0", FLOAT), "b": ("a:0", FLOAT)}, {"sum": ("sum:0", FLOAT)}),
    signature(
        "add_default",
        {"a": ("a:0", FLOAT), "b": ("b:0", FLOAT)},
        {"sum": ("sum:0", FLOAT)},
        defaults={"b": one_float(5)},
    ),
    signature("count", {}, {"output": ("count:0", 9)}),
    signature("twice_fed", {"p": ("x:0", FLOAT), "q": ("x:0", FLOAT)}, {"y": ("y:0", FLOAT)}),
    signature("twice_fetched", {"x": ("x:0", FLOAT)}, {"p": ("y:0", FLOAT), "q": ("y:0", FLOAT)}),
    signature("text", {"s": ("s:0", STRING)}, {"s": ("echo_s:0", STRING), "s_bytes": ("echo_s:0", STRING)}),
    signature("complex", {"z": ("z:0", COMPLEX128)}, {"z": ("echo_z:0", COMPLEX128)}),
    signature("misdeclared", {"x": ("x:0", FLOAT)}, {"y": ("y:0", INT32)}),
    signature("broken", {"r": ("r:0", FLOAT)}, {}, problem="Signature broken cannot be served: input r is a resource."),
)


def signature_def_map() -> bytes:
    """The SignatureDefMap of half_plus_two, with a signature that is not served."""
    message = get_model_metadata_pb2.SignatureDefMap()
    default = message.signature_def["serving_default"]
    default.method_name = "tensorflow/serving/predict"
    for tensors, name in ((default.inputs, "x"), (default.outputs, "y")):
        info = tensors[name]
        info.name, info.dtype = f"{name}:0", FLOAT
        info.tensor_shape.dim.add(size=-1)
    init = message.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
    init.CopyFrom(meta_graph_pb2.TensorInfo(name="NoOp", tensor_shape={"unknown_rank": True}))
    return message.SerializeToString()


def servable(
    model: str = "half", version: int = 1, instances: Sequence[str] = ("one",), *, stateful: bool = False
) -> ServableRoute:
    return ServableRoute(
        model=model,
        version=version,
        triton_name=f"tfs.00000000.{model}.{version}",
        instances=tuple(instances),
        signatures={item.name: item for item in SIGNATURES},
        signature_def_map=signature_def_map(),
        stateful=stateful,
    )


def model(
    name: str, servables: Sequence[ServableRoute], labels: Mapping[str, int] | None = None, ended: Sequence[int] = ()
) -> ModelRoute:
    """A model whose `servables` are AVAILABLE and whose versions in `ended` failed to load."""
    available = [VersionStatus(item.version, VersionState.AVAILABLE) for item in servables]
    failed = [VersionStatus(item, VersionState.END, Code.UNKNOWN, "it failed") for item in ended]
    statuses = sorted([*available, *failed], key=lambda status: -status.version)
    return ModelRoute(
        name=name, servables={item.version: item for item in servables}, labels=labels or {}, statuses=tuple(statuses)
    )


def instance(name: str) -> InstanceRoute:
    return InstanceRoute(name, grpc=f"{name}:8001", http=f"{name}:8000")


def routes(
    *models: ModelRoute, epoch: int = 1, instances: Sequence[str] = ("one", "two"), configured: bool = True
) -> Routes:
    return Routes(
        epoch=epoch,
        models={item.name: item for item in models},
        instances={name: instance(name) for name in instances},
        configured=configured,
    )
