"""SavedModel directories made by hand from protocol buffers, without TensorFlow.

They hold what the readers look at; TensorFlow itself would not load them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from model_repo_sync.protos.tensorflow import meta_graph_pb2, saved_model_pb2, tensor_bundle_pb2, types_pb2

TABLE_MAGIC = 0xDB4775248B80FB57


class GraphBuilder:
    """One MetaGraphDef, filled node by node."""

    def __init__(self, tags: Sequence[str] = ("serve",)) -> None:
        self.message = meta_graph_pb2.MetaGraphDef()
        self.message.meta_info_def.tags.extend(tags)
        self.message.meta_info_def.tensorflow_version = "2.21.0"

    def op(
        self,
        name: str,
        outputs: Mapping[str, str | int] | None = None,
        *,
        stateful: bool = False,
        reference_input: bool = False,
    ) -> GraphBuilder:
        """Defines an op; an output is the attribute that holds its type, or a fixed dtype."""
        op = self.message.meta_info_def.stripped_op_list.op.add(name=name, is_stateful=stateful)
        op.input_arg.add(name="in", type_attr="T", is_ref=reference_input)
        for output, source in (outputs or {}).items():
            if isinstance(source, int):
                op.output_arg.add(name=output, type=source)
            else:
                op.output_arg.add(name=output, type_attr=source)
        return self

    def node(self, name: str, op: str, *inputs: str, **types: int | Sequence[int]) -> GraphBuilder:
        """Adds a node; keyword arguments are attributes, a dtype or a list of dtypes each."""
        node = self.message.graph_def.node.add(name=name, op=op, input=inputs)
        for attr, value in types.items():
            if isinstance(value, int):
                node.attr[attr].type = value
            else:
                node.attr[attr].list.type.extend(value)
        return self

    def placeholder(self, name: str, dtype: int = types_pb2.DT_FLOAT) -> GraphBuilder:
        return self.node(name, "Placeholder", dtype=dtype)

    def signature(
        self,
        name: str,
        inputs: Mapping[str, tuple[str, int]],
        outputs: Mapping[str, tuple[str, int]],
        method: str = "tensorflow/serving/predict",
    ) -> GraphBuilder:
        """Adds a signature; a tensor is its name and the dtype that TensorInfo declares."""
        definition = self.message.signature_def[name]
        definition.method_name = method
        for infos, tensors in ((definition.inputs, inputs), (definition.outputs, outputs)):
            for alias, (tensor, dtype) in tensors.items():
                infos[alias].name = tensor
                infos[alias].dtype = dtype
                infos[alias].tensor_shape.dim.add(size=-1)
        return self

    def variables(self) -> GraphBuilder:
        """Makes the graph one that restores variables."""
        self.message.saver_def.restore_op_name = "save/restore_all"
        return self.node("w", "VarHandleOp", dtype=types_pb2.DT_FLOAT)


def identity() -> GraphBuilder:
    """serving_default: x -> y, both float."""
    builder = GraphBuilder().op("Identity", {"output": "T"})
    builder.placeholder("x").node("y", "Identity", "x", T=types_pb2.DT_FLOAT)
    return builder.signature("serving_default", {"x": ("x:0", 1)}, {"y": ("y:0", 1)})


def saved_model(*graphs: GraphBuilder) -> bytes:
    """A serialized SavedModel, of `identity` where no graph is given."""
    message = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    for graph in graphs or (identity(),):
        message.meta_graphs.add().CopyFrom(graph.message)
    return message.SerializeToString()


def write(directory: Path, *graphs: GraphBuilder, shards: Sequence[int] = ()) -> Path:
    """Makes `directory` a SavedModel with variables shards of the given sizes."""
    directory.mkdir(parents=True)
    (directory / "saved_model.pb").write_bytes(saved_model(*graphs))
    if shards:
        variables = directory / "variables"
        variables.mkdir()
        (variables / "variables.index").write_bytes(checkpoint_index(shards))
        for number, size in enumerate(shards):
            (variables / f"variables.data-{number:05d}-of-{len(shards):05d}").write_bytes(b"\0" * size)
    return directory


def checkpoint_index(shards: Sequence[int]) -> bytes:
    """A checkpoint index with one tensor that fills each shard."""
    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=len(shards))
    entries = {b"": header.SerializeToString()}
    for number, size in enumerate(shards):
        entry = tensor_bundle_pb2.BundleEntryProto(dtype=types_pb2.DT_FLOAT, shard_id=number, size=size, crc32c=1)
        entry.shape.dim.add(size=size)
        entries[b"tensor%d" % number] = entry.SerializeToString()
    return table(entries)


def table(entries: Mapping[bytes, bytes], compression: int = 0) -> bytes:
    """The LevelDB table format with one data block; keys must ascend, prefixes are shared."""
    data = _block(entries)
    meta_offset = len(data) + 5
    meta = _block({})
    index = _block({b"~": _varint(0) + _varint(len(data))})
    index_offset = meta_offset + len(meta) + 5
    handles = _varint(meta_offset) + _varint(len(meta)) + _varint(index_offset) + _varint(len(index))
    trailer = b"\0" + b"crc!"
    blocks = data + bytes([compression]) + b"crc!" + meta + trailer + index + trailer
    return blocks + handles.ljust(40, b"\0") + struct.pack("<Q", TABLE_MAGIC)


def _block(entries: Mapping[bytes, bytes]) -> bytes:
    block, previous = b"", b""
    for key, value in entries.items():
        shared = next((i for i, (a, b) in enumerate(zip(key, previous, strict=False)) if a != b), 0)
        block += _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
        previous = key
    return block + struct.pack("<II", 0, 1)


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])
