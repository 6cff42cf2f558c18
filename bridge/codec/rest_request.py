"""The body of a REST predict request: its signature, its format and its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.codec.dense_body import DenseNumbers, DenseValue, parse_dense
from bridge.codec.json_body import parse_object
from bridge.codec.json_text import dump
from bridge.codec.json_values import ElementBuffer, dense_tensor, is_base64_object
from bridge.codec.tensor import Tensor
from bridge.errors import BridgeError, InvalidArgument
from bridge.serving.routes import TensorRoute


class RestPredict(NamedTuple):
    """A parsed body. `signature_name` is empty for the default; `root` is the whole JSON object.

    `dense` is what the fast path read, None where it did not; then `root` stays empty until `exact` is asked.
    """

    signature_name: str
    root: Mapping[str, Any]
    body: bytes = b""
    dense: Mapping[str, DenseValue] | None = None

    @property
    def row(self) -> bool:
        """Whether the request, and so the response, is in row format (`instances`) instead of columns (`inputs`)."""
        return "instances" in (self.root if self.dense is None else self.dense)

    def exact(self) -> RestPredict:
        """This request as the exact path reads it."""
        return self if self.dense is None else RestPredict(self.signature_name, parse_object(self.body))


def parse_predict_body(body: bytes) -> RestPredict:
    """Parse a body as far as that is possible without the signature. Raises InvalidArgument."""
    dense = parse_dense(body)
    if dense is not None and isinstance(name := dense.get("signature_name", ""), str):
        return RestPredict(name, {}, body, dense)
    root = parse_object(body)
    return RestPredict(signature_name(root), root)


def signature_name(root: Mapping[str, Any]) -> str:
    """The signature that a body names, empty for the default. Raises InvalidArgument."""
    name = root.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidArgument(
            f"JSON Value: {dump(root)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name


def tensors(request: RestPredict, inputs: Sequence[TensorRoute]) -> dict[str, Tensor]:
    """The tensors of a request by alias, typed as the signature's `inputs` say; shapes come from the JSON alone.

    Raises InvalidArgument with TF Serving's sentences, Unimplemented where columns ask for a dtype without a JSON form.
    """
    if not inputs:
        raise InvalidArgument(f"Failed to get input map for signature: {request.signature_name or 'DEFAULT'}")
    types = {route.alias: route.dtype for route in inputs}
    dense = None if request.dense is None else _from_dense(request.dense, types)
    return _exact_tensors(request.exact().root, types) if dense is None else dense


def _from_dense(root: Mapping[str, DenseValue], types: Mapping[str, int]) -> dict[str, Tensor] | None:
    """The tensors of a body that the fast path read; None where the exact path has to look at it."""
    values = [root[key] for key in ("instances", "inputs") if key in root]
    if len(values) != 1:
        return None
    [value] = values
    if isinstance(value, DenseNumbers):
        value = {next(iter(types)): value} if len(types) == 1 else {}
    elif isinstance(value, str) or "instances" in root:
        return None
    result = {}
    for alias, dtype in types.items():
        tensor = value[alias].tensor(dtype) if alias in value else None
        if tensor is None:
            return None
        result[alias] = tensor
    return result


def _exact_tensors(root: Mapping[str, Any], types: Mapping[str, int]) -> dict[str, Tensor]:
    if "instances" not in root and "inputs" not in root:
        raise InvalidArgument("Missing 'inputs' or 'instances' key")
    if "instances" not in root:
        return _from_columns(root["inputs"], types)
    instances = root["instances"]
    problem = _problem(root, instances)
    if problem:
        raise InvalidArgument(f"JSON Value: {dump(root)} {problem}")
    return _from_rows(instances, types)


def _problem(root: Mapping[str, Any], instances: Any) -> str:
    if "inputs" in root:
        return "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
    if not isinstance(instances, list):
        return "Expecting 'instances' to be an list/array"
    return "" if instances else "No values in 'instances' array"


def _from_columns(value: Any, types: Mapping[str, int]) -> dict[str, Tensor]:
    if _is_object(value):
        result = {}
        for alias, dtype in types.items():
            if alias not in value:
                raise InvalidArgument(f"Missing named input: {alias} in 'inputs' object.")
            result[alias] = _column(alias, dtype, value[alias])
        return result
    if len(types) > 1:
        raise InvalidArgument(
            "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
            "tensorinfo_map"
        )
    return {alias: _column(alias, dtype, value) for alias, dtype in types.items()}


def _column(alias: str, dtype: int, value: Any) -> Tensor:
    dense = dense_tensor(alias, dtype, value) if type(value) is list and value else None
    if dense is not None:
        return dense
    elements = ElementBuffer(alias, dtype)
    elements.add(value)
    return elements.tensor()


def _from_rows(instances: list[Any], types: Mapping[str, int]) -> dict[str, Tensor]:
    if not isinstance(instances[0], dict) and len(types) > 1:
        raise InvalidArgument(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    if _is_object(instances[0]):
        return _dense_objects(instances, types) or _objects(instances, types)
    alias, dtype = min(types.items())
    return {alias: dense_tensor(alias, dtype, instances) or _plain_rows(instances, alias, dtype)}


def _plain_rows(instances: list[Any], alias: str, dtype: int) -> Tensor:
    elements = ElementBuffer(alias, dtype)
    for index, item in enumerate(instances):
        if _is_object(item):
            raise InvalidArgument(f"Expecting value/list but got object at item {index} of input list")
        try:
            elements.add(item)
        except BridgeError as error:
            raise _in_instance(f"{index}", error) from None
    return elements.tensor(len(instances))


def _dense_objects(instances: list[Any], types: Mapping[str, int]) -> dict[str, Tensor] | None:
    """The tensors of rows that all have exactly the signature's aliases and need no closer look; None otherwise."""
    if not all(_is_object(item) and item.keys() == types.keys() for item in instances):
        return None
    result = {}
    for alias, dtype in types.items():
        dense = dense_tensor(alias, dtype, [item[alias] for item in instances])
        if dense is None:
            return None
        result[alias] = dense
    return result


def _objects(instances: list[Any], types: Mapping[str, int]) -> dict[str, Tensor]:
    columns = {alias: ElementBuffer(alias, dtype) for alias, dtype in types.items()}
    for index, item in enumerate(instances):
        if not _is_object(item):
            raise InvalidArgument(f"Expecting object but got list at item {index} of input list")
        for key, value in item.items():
            _add_value(columns, index, key, value)
        if item.keys() != columns.keys():
            raise InvalidArgument(
                f"Failed to process element: {index} of 'instances' list. JSON object: {dump(item)} "
                f"keys must be equal to: {_joined(columns)}"
            )
    return {alias: column.tensor(len(instances)) for alias, column in columns.items()}


def _add_value(columns: Mapping[str, ElementBuffer], index: int, key: str, value: Any) -> None:
    try:
        if key not in columns:
            raise InvalidArgument(f"JSON object: does not have named input: {key}")
        columns[key].add(value)
    except BridgeError as error:
        raise _in_instance(f"{index} key: {key}", error) from None


def _in_instance(place: str, error: BridgeError) -> InvalidArgument:
    return InvalidArgument(
        f"Failed to process element: {place} of 'instances' list. Error: {error.code.name}: {error.message}"
    )


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_base64_object(value)


def _joined(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
