"""What a graph says about its tensors: their dtypes, and whether computing them changes state.

A SavedModel carries the definitions of the ops that it uses (`stripped_op_list`), so output dtypes follow from the node
and its op's definition without TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from model_repo_sync.protos.tensorflow import attr_value_pb2, meta_graph_pb2, node_def_pb2, op_def_pb2

_TENSOR_NAME = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_>./\\-]*)(?::([0-9]+))?")
_DTYPE_ATTR = {"Placeholder": "dtype", "PlaceholderV2": "dtype", "PlaceholderWithDefault": "dtype", "Const": "dtype"}
_READS_ONLY = re.compile(
    r"(Ref)?(Identity|Switch|Merge|Select|Enter|Exit|NextIteration)|IsVariableInitialized|VarIsInitializedOp|NoOp"
    r"|Variable|VariableV2|VarHandleOp|_?ReadVariables?Op|VariableShape|DisableCopyOnRead|ResourceGather(Nd)?"
    r"|(Anonymous)?(Mutable(Dense)?)?HashTable(OfTensors)?(V2)?|LookupTable(Find|Size|Export)(V2)?|InitializeTable.*"
    r"|BoostedTrees(EnsembleResourceHandleOp|Predict)|IsBoostedTreesEnsembleInitialized"
    r"|Placeholder|Assert|Print(V2)?|CheckNumerics(V2)?|Timestamp|Empty|ReadFile|_Arg|_Retval"
    r"|(Stateful)?PartitionedCall|If|While|Case|XlaCallModule|XlaLaunch|TensorArray.*|CudnnRNN(V2|V3)?"
    r"|Random[A-Z].*|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|SampleDistortedBoundingBox(V2)?"
)
"""Ops that TensorFlow calls stateful, or that take references, and that leave a second run the same as the first."""


class TensorName(NamedTuple):
    """The tensor `<op>:<output>`; TensorFlow reads a name without a number as output 0."""

    op: str
    output: int

    def __str__(self) -> str:
        return f"{self.op}:{self.output}"


class UnknownTensorError(Exception):
    """The graph has no such tensor; the text says why, as the end of a sentence that the tensor's name begins."""


def parse_tensor_name(text: str) -> TensorName | None:
    """The parts of a tensor's name; None for what names no tensor, such as the control input `^op`."""
    match = _TENSOR_NAME.fullmatch(text)
    return TensorName(match[1], int(match[2] or 0)) if match else None


class Graph:
    """The graph of one MetaGraphDef with its functions and op definitions."""

    def __init__(self, meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
        library = meta_graph.graph_def.library.function
        self._nodes = {node.name: node for node in meta_graph.graph_def.node}
        self._functions = {function.signature.name: function for function in library}
        self._ops = {op.name: op for op in meta_graph.meta_info_def.stripped_op_list.op}
        self._ops.update((name, function.signature) for name, function in self._functions.items())

    def dtype(self, tensor: TensorName) -> int | None:
        """TensorFlow's number of the dtype, without the reference bit; None where the graph does not tell.

        Raises UnknownTensorError where there is no such op, or it has fewer outputs.
        """
        node = self._nodes.get(tensor.op)
        if node is None:
            raise UnknownTensorError("whose op is not in the graph")
        dtypes = self._output_dtypes(node)
        if dtypes is None:
            return None
        if tensor.output >= len(dtypes):
            raise UnknownTensorError(f"whose op has only {len(dtypes)} outputs")
        return dtypes[tensor.output] % 100

    def changes_state(self, tensors: Iterable[TensorName]) -> bool:
        """Whether computing `tensors` may leave variables, tables, queues or files changed.

        An op without a definition counts as one that does. Random numbers and printing do not count.
        """
        nodes = self._needed({tensor.op for tensor in tensors})
        functions: set[str] = set()
        while nodes:
            if any(self._is_mutation(node) for node in nodes):
                return True
            called = {name for node in nodes for name in self._called(node)} - functions
            functions |= called
            nodes = [node for name in called for node in self._functions[name].node_def]
        return False

    def _needed(self, ops: set[str]) -> list[node_def_pb2.NodeDef]:
        pending, seen = list(ops), set(ops)
        needed = []
        while pending:
            node = self._nodes.get(pending.pop())
            if node is None:
                continue
            needed.append(node)
            fresh = {name.lstrip("^").partition(":")[0] for name in node.input} - seen
            seen |= fresh
            pending.extend(fresh)
        return needed

    def _is_mutation(self, node: node_def_pb2.NodeDef) -> bool:
        if node.op in self._functions or _READS_ONLY.fullmatch(node.op) or node.op in _DTYPE_ATTR:
            return False
        op = self._ops.get(node.op)
        return op is None or op.is_stateful or any(argument.is_ref for argument in op.input_arg)

    def _called(self, node: node_def_pb2.NodeDef) -> Iterator[str]:
        names = [node.op]
        for value in node.attr.values():
            names.append(value.func.name)
            names.extend(function.name for function in value.list.func)
        return (name for name in names if name in self._functions)

    def _output_dtypes(self, node: node_def_pb2.NodeDef) -> list[int] | None:
        op = self._ops.get(node.op)
        if op is None:
            attr = node.attr.get(_DTYPE_ATTR.get(node.op, ""))
            return [attr.type] if attr is not None else None
        dtypes: list[int] = []
        for argument in op.output_arg:
            dtypes += _argument_dtypes(argument, op, node)
        return None if 0 in dtypes else dtypes


def _argument_dtypes(argument: op_def_pb2.OpDef.ArgDef, op: op_def_pb2.OpDef, node: node_def_pb2.NodeDef) -> list[int]:
    if argument.type_list_attr:
        return list(_attr(argument.type_list_attr, op, node).list.type)
    dtype = argument.type or (_attr(argument.type_attr, op, node).type if argument.type_attr else 0)
    count = _attr(argument.number_attr, op, node).i if argument.number_attr else 1
    return [dtype] * count


def _attr(name: str, op: op_def_pb2.OpDef, node: node_def_pb2.NodeDef) -> attr_value_pb2.AttrValue:
    if name in node.attr:
        return node.attr[name]
    defaults = (attr.default_value for attr in op.attr if attr.name == name)
    return next(defaults, attr_value_pb2.AttrValue())
