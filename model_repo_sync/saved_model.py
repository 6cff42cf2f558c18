"""Reads what a SavedModel serves: its signatures, with the dtypes of the graph, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from google.protobuf.text_format import ParseError

from model_repo_sync import saved_model_files
from model_repo_sync.graph import Graph, TensorName, UnknownTensorError, parse_tensor_name
from model_repo_sync.protos.tensorflow import error_codes_pb2, meta_graph_pb2
from model_repo_sync.protos.tensorflow_serving import get_model_metadata_pb2
from model_repo_sync.runner.tensorflow_engine import dtypes

_INTERNAL_PREFIX = "__saved_model_"


class SavedModelError(Exception):
    """A SavedModel that cannot be served, with a canonical code and TF Serving's sentence where it has one."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One alias of a signature.

    `tensor` is the graph name with its index, `x:0`; empty where the alias stands for no single tensor. `dtype` is
    TensorFlow's number from the graph without the reference bit, `declared_dtype` what TensorInfo says, reference bit
    included. `shape` is the declared one, -1 for an unknown dimension and None for an unknown rank.
    """

    alias: str
    tensor: str
    dtype: int
    declared_dtype: int
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature; inputs and outputs are sorted by alias, `defaults` are serialized TensorProtos by alias.

    `problem` is one sentence that says why the signature cannot be served, empty where it can.
    """

    name: str
    method_name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    defaults: Mapping[str, bytes]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The MetaGraph with `tags` of the SavedModel in `path`.

    `signatures` leaves TensorFlow's own `__saved_model_*` out; `signature_def_map` is a serialized
    tensorflow.serving.SignatureDefMap of all of them, verbatim. `stateful` says that some signature changes state, so
    that a request must not run twice. `fingerprint` is that of `saved_model_files.fingerprint`.
    """

    path: str
    tags: tuple[str, ...]
    tensorflow_version: str
    signatures: Mapping[str, Signature]
    signature_def_map: bytes
    stateful: bool
    warnings: tuple[str, ...]
    fingerprint: str

    def served(self) -> tuple[Signature, ...]:
        """The signatures without a problem, by name."""
        return tuple(self.signatures[name] for name in sorted(self.signatures) if not self.signatures[name].problem)


def read_saved_model(path: str, tags: Sequence[str] = ("serve",)) -> SavedModel:
    """Reads the MetaGraph whose tag set is exactly `tags`.

    Raises SavedModelError where there is none, the files cannot be read, or no signature can be served.
    """
    try:
        fingerprint = saved_model_files.fingerprint(path)
        meta_graph = _meta_graph(path, tags)
    except OSError as error:
        raise SavedModelError(error_codes_pb2.NOT_FOUND, f"{error.filename or path}; {error.strerror}") from error
    graph = Graph(meta_graph)
    signatures = _signatures(meta_graph, graph)
    model = SavedModel(
        path=path,
        tags=tuple(tags),
        tensorflow_version=meta_graph.meta_info_def.tensorflow_version,
        signatures=signatures,
        signature_def_map=_signature_def_map(meta_graph),
        stateful=graph.changes_state(_fetched(signatures.values())),
        warnings=tuple(_warnings(signatures.values())),
        fingerprint=fingerprint,
    )
    if signatures and not model.served():
        problems = " ".join(signature.problem for signature in signatures.values())
        raise SavedModelError(error_codes_pb2.UNIMPLEMENTED, f"No signature of {path} can be served: {problems}")
    return model


def _meta_graph(path: str, tags: Sequence[str]) -> meta_graph_pb2.MetaGraphDef:
    file = saved_model_files.find(path)
    if file is None:
        raise _missing(path)
    try:
        message = saved_model_files.parse(file)
    except (DecodeError, ParseError, UnicodeDecodeError) as error:
        form = "text" if file.endswith(saved_model_files.TEXT) else "binary"
        raise SavedModelError(error_codes_pb2.DATA_LOSS, f"Can't parse {file} as {form} proto") from error
    for meta_graph in message.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == set(tags):
            return meta_graph
    raise SavedModelError(
        error_codes_pb2.NOT_FOUND,
        f"Could not find meta graph def matching supplied tags: {{ {' '.join(tags)} }}. To inspect available tag-sets "
        "in the SavedModel, please use the SavedModel CLI: `saved_model_cli`",
    )


def _missing(path: str) -> SavedModelError:
    if saved_model_files.is_session_bundle(path):
        return SavedModelError(error_codes_pb2.UNIMPLEMENTED, "Session Bundle is deprecated and removed.")
    return SavedModelError(
        error_codes_pb2.NOT_FOUND,
        "Specified file path does not appear to contain a SavedModel bundle (should have a file called "
        f"`saved_model.pb`)\nSpecified file path: {path}",
    )


def _signature_def_map(meta_graph: meta_graph_pb2.MetaGraphDef) -> bytes:
    message = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in meta_graph.signature_def.items():
        message.signature_def[name].CopyFrom(definition)
    return message.SerializeToString(deterministic=True)


def _signatures(meta_graph: meta_graph_pb2.MetaGraphDef, graph: Graph) -> dict[str, Signature]:
    definitions = sorted(meta_graph.signature_def.items())
    return {
        name: _signature(name, definition, graph)
        for name, definition in definitions
        if not name.startswith(_INTERNAL_PREFIX)
    }


def _signature(name: str, definition: meta_graph_pb2.SignatureDef, graph: Graph) -> Signature:
    faults: list[str] = []
    inputs = _specs("input", definition.inputs, graph, faults)
    outputs = _specs("output", definition.outputs, graph, faults)
    return Signature(
        name=name,
        method_name=definition.method_name,
        inputs=inputs,
        outputs=outputs,
        defaults={alias: value.SerializeToString() for alias, value in sorted(definition.defaults.items())},
        problem=f'Signature "{name}" cannot be served: {"; ".join(faults)}.' if faults else "",
    )


def _specs(
    role: str, infos: Mapping[str, meta_graph_pb2.TensorInfo], graph: Graph, faults: list[str]
) -> tuple[TensorSpec, ...]:
    specs = []
    for alias, info in sorted(infos.items()):
        tensor = parse_tensor_name(info.name) if info.WhichOneof("encoding") == "name" else None
        dtype = dtypes.base(info.dtype)
        try:
            dtype = _dtype(info, tensor, graph)
        except _FaultError as fault:
            faults.append(f'{role} "{alias}" {fault}')
        specs.append(TensorSpec(alias, str(tensor) if tensor else "", dtype, info.dtype, _shape(info)))
    return tuple(specs)


class _FaultError(Exception):
    """Why an alias cannot be served, as the rest of a sentence that the alias begins."""


def _dtype(info: meta_graph_pb2.TensorInfo, tensor: TensorName | None, graph: Graph) -> int:
    encoding = info.WhichOneof("encoding")
    if encoding in ("coo_sparse", "composite_tensor"):
        raise _FaultError("is a sparse tensor" if encoding == "coo_sparse" else "is a composite tensor")
    if tensor is None:
        raise _FaultError(f'names "{info.name}", which is no tensor')
    try:
        dtype = graph.dtype(tensor) or dtypes.base(info.dtype)
    except UnknownTensorError as error:
        raise _FaultError(f'names "{tensor}", {error}') from error
    if dtype not in dtypes.DTYPES:
        raise _FaultError(f"has the dtype {dtypes.name(dtype)}")
    return dtype


def _shape(info: meta_graph_pb2.TensorInfo) -> tuple[int, ...] | None:
    if info.tensor_shape.unknown_rank or not info.HasField("tensor_shape"):
        return None
    return tuple(dimension.size for dimension in info.tensor_shape.dim)


def _fetched(signatures: Iterable[Signature]) -> list[TensorName]:
    names = (parse_tensor_name(spec.tensor) for signature in signatures for spec in signature.outputs)
    return [name for name in names if name is not None]


def _warnings(signatures: Iterable[Signature]) -> Iterable[str]:
    empty = True
    for signature in signatures:
        empty = False
        for role, specs in (("input", signature.inputs), ("output", signature.outputs)):
            for spec in specs:
                if spec.declared_dtype and dtypes.base(spec.declared_dtype) != spec.dtype:
                    yield (
                        f'Signature "{signature.name}" declares {role} "{spec.alias}" as '
                        f'{dtypes.name(dtypes.base(spec.declared_dtype))}, but "{spec.tensor}" is '
                        f"{dtypes.name(spec.dtype)} in the graph, which is what counts."
                    )
    if empty:
        yield "The SavedModel has no signature, so no request to it can succeed."
