from __future__ import annotations

import pytest

from model_repo_sync.graph import Graph, TensorName, UnknownTensorError, parse_tensor_name
from model_repo_sync.protos.tensorflow import types_pb2
from tests.model_repo_sync.builders import GraphBuilder

FLOAT, INT32, INT64, STRING, FLOAT_REF = 1, 3, 9, 7, 101


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x:0", TensorName("x", 0)),
        ("x", TensorName("x", 0)),
        ("scope/x_1:12", TensorName("scope/x_1", 12)),
        ("x:007", TensorName("x", 7)),
        ("^x", None), ("", None), (":0", None), ("x:", None), ("x:a", None), ("x:-1", None), ("x y:0", None),
    ],
)  # fmt: skip
def test_tensor_names(text: str, name: TensorName | None) -> None:
    assert parse_tensor_name(text) == name


def dtype_graph() -> Graph:
    builder = GraphBuilder()
    builder.op("VariableV2", {"ref": "dtype"}, stateful=True).op("ArgMax", {"output": "output_type"})
    builder.op("TopKV2", {"values": "T", "indices": types_pb2.DT_INT32}).op("Shape", {"output": "out_type"})
    ops = builder.message.meta_info_def.stripped_op_list.op
    ops[3].attr.add(name="out_type").default_value.type = INT32
    ops.add(name="PartitionedCall").output_arg.add(name="output", type_list_attr="Tout")
    ops.add(name="Split").output_arg.add(name="output", type_attr="T", number_attr="num_split")
    builder.placeholder("x", INT64).node("v", "VariableV2", dtype=FLOAT_REF)
    builder.node("argmax", "ArgMax", "x", T=FLOAT, output_type=INT64).node("top", "TopKV2", T=FLOAT)
    builder.node("shape", "Shape", "x", T=FLOAT).node("call", "PartitionedCall", Tout=[STRING, INT32])
    builder.node("split", "Split", T=FLOAT).message.graph_def.node[-1].attr["num_split"].i = 2
    function = builder.message.graph_def.library.function.add()
    function.signature.name = "my_function"
    function.signature.output_arg.add(name="out", type=STRING)
    builder.node("called", "my_function").node("custom", "MyOp").node("untyped", "TopKV2")
    return Graph(builder.message)


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        ("x:0", INT64),
        ("v:0", FLOAT),
        ("argmax:0", INT64),
        ("top:0", FLOAT),
        ("top:1", INT32),
        ("shape:0", INT32),
        ("call:0", STRING),
        ("call:1", INT32),
        ("split:1", FLOAT),
        ("called:0", STRING),
        ("custom:0", None),
        ("untyped:0", None),
    ],
)
def test_dtypes_come_from_node_and_op_definition(tensor: str, dtype: int | None) -> None:
    name = parse_tensor_name(tensor)
    assert name is not None
    assert dtype_graph().dtype(name) == dtype


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (TensorName("nothing", 0), "whose op is not in the graph"),
        (TensorName("call", 2), "whose op has only 2 outputs"),
        (TensorName("split", 2), "whose op has only 2 outputs"),
        (TensorName("x", 1), "whose op has only 1 outputs"),
    ],
)
def test_tensors_that_are_not_there(tensor: TensorName, sentence: str) -> None:
    with pytest.raises(UnknownTensorError, match=sentence):
        dtype_graph().dtype(tensor)


def state_graph() -> GraphBuilder:
    builder = GraphBuilder().op("VarHandleOp", stateful=True).op("ReadVariableOp", stateful=True).op("Mul")
    builder.op("AssignAddVariableOp", stateful=True).op("Assign", reference_input=True).op(
        "RandomUniform", stateful=True
    )
    builder.op("StatefulPartitionedCall", stateful=True).op("NoOp")
    builder.placeholder("x").node("w", "VarHandleOp").node("read", "ReadVariableOp", "w").node(
        "y", "Mul", "x", "read:0"
    )
    builder.node("add", "AssignAddVariableOp", "w").node("after", "ReadVariableOp", "w", "^add")
    builder.node("assign", "Assign", "x").node("random", "RandomUniform").node("custom", "MyOp")
    for name, inner in (("reader", "ReadVariableOp"), ("writer", "AssignAddVariableOp")):
        function = builder.message.graph_def.library.function.add()
        function.signature.name = name
        function.node_def.add(name="inner", op=inner)
        outer = builder.message.graph_def.library.function.add()
        outer.signature.name = f"outer_{name}"
        outer.node_def.add(name="call", op="PartitionedCall").attr["f"].func.name = name
        for called in (name, f"outer_{name}"):
            builder.node(f"call_{called}", "StatefulPartitionedCall")
            builder.message.graph_def.node[-1].attr["f"].func.name = called
    recursive = builder.message.graph_def.library.function.add()
    recursive.signature.name = "recursive"
    recursive.node_def.add(name="again", op="recursive")
    return builder.node("loop", "recursive")


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        ("x", False),
        ("y", False),
        ("random", False),
        ("call_reader", False),
        ("call_outer_reader", False),
        ("loop", False),
        ("nothing", False),
        ("add", True),
        ("after", True),
        ("assign", True),
        ("custom", True),
        ("call_writer", True),
        ("call_outer_writer", True),
    ],
)
def test_state_is_changed_by_what_an_output_needs(op: str, changes: bool) -> None:
    assert Graph(state_graph().message).changes_state([TensorName(op, 0)]) is changes
