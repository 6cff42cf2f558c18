"""The bodies of REST responses, in TF Serving's layout to the last blank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from google.protobuf import json_format

from bridge.codec.inference_results import Classifications, Regressions
from bridge.codec.json_text import INDENT, quote
from bridge.codec.numbers import float_texts
from bridge.codec.tensor import Tensor
from bridge.codec.tensor_text import column_text, row_texts, rows_text
from bridge.errors import InvalidArgument
from bridge.serving.routes import VersionStatus
from model_repo_sync.protos.tensorflow import meta_graph_pb2
from model_repo_sync.protos.tensorflow_serving import get_model_metadata_pb2

Pieces = Sequence[bytes]
"""Text that is joined once, at the end: it may be large."""

_INDENT = INDENT.encode()


def predict_json(outputs: Sequence[tuple[str, Tensor]], row: bool) -> bytes:
    """The body that answers a predict request, in row format or in columns.

    One output stands for itself, several make objects by alias. Raises InvalidArgument for outputs that JSON, or rows,
    cannot carry.
    """
    if not outputs:
        raise InvalidArgument("Cannot convert empty tensor map to JSON")
    return b"".join(_predictions(outputs) if row else _outputs(outputs))


def _predictions(outputs: Sequence[tuple[str, Tensor]]) -> Pieces:
    batch = _batch_size(outputs)
    if len(outputs) == 1:
        body: Pieces = rows_text(*outputs[0], level=2)
    else:
        columns = [(quote(alias).encode(), row_texts(alias, tensor, level=3)) for alias, tensor in outputs]
        rows = [_object([(alias, [texts[index]]) for alias, texts in columns], 2) for index in range(batch)]
        body = _lines(rows, 2)
    return _object([(b'"predictions"', [b"[", *body, b"\n" + _INDENT + b"]"] if batch else [b"[]"])], 0)


def _batch_size(outputs: Sequence[tuple[str, Tensor]]) -> int:
    batch = -1
    for alias, tensor in outputs:
        if not tensor.shape:
            raise InvalidArgument(f"Tensor name: {alias} has no shape information ")
        if batch >= 0 and tensor.shape[0] != batch:
            raise InvalidArgument(
                f"Tensor name: {alias} has inconsistent batch size: {tensor.shape[0]} expecting: {batch}"
            )
        batch = tensor.shape[0]
    return batch


def _outputs(outputs: Sequence[tuple[str, Tensor]]) -> Pieces:
    if len(outputs) == 1:
        return _object([(b'"outputs"', column_text(*outputs[0], level=1))], 0)
    columns = [(quote(alias).encode(), column_text(alias, tensor, level=2)) for alias, tensor in outputs]
    return _object([(b'"outputs"', _object(columns, 1))], 0)


def _lines(items: Iterable[Pieces], level: int) -> Pieces:
    """Each item on a line of its own."""
    indent = b"\n" + _INDENT * level
    pieces: list[bytes] = []
    for item in items:
        pieces += (b"," + indent if pieces else indent, *item)
    return pieces


def _object(members: Sequence[tuple[bytes, Pieces]], level: int) -> Pieces:
    lines = _lines(([key, b": ", *value] for key, value in members), level + 1)
    return [b"{", *lines, b"\n" + _INDENT * level + b"}"]


def results_json(result: Classifications | Regressions) -> bytes:
    """The body that answers a classify or regress request.

    TF Serving leaves the one-line layout between two Examples of a classification, never within a regression.
    """
    if isinstance(result, Regressions):
        texts, end = float_texts(np.array(result.values, np.float32)), ""
    else:
        texts, end = [_classes(row) for row in result.rows], f"\n{INDENT}"
    return b"".join(_object([(b'"results"', [_utf8(f"[{', '.join(texts)}{end}]")])], 0))


def _classes(row: Sequence[tuple[bytes, float]]) -> str:
    scores = float_texts(np.array([score for _, score in row], np.float32))
    labels = [quote(label.decode("utf-8", "surrogateescape")) for label, _ in row]
    return f"[{', '.join([f'[{label}, {score}]' for label, score in zip(labels, scores, strict=True)])}]"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def error_json(message: str) -> bytes:
    """The body of an error response."""
    return b"".join(_object([(b'"error"', [_utf8(quote(message))])], 0))


def status_json(statuses: Sequence[VersionStatus]) -> bytes:
    """The body of a model status response, as protobuf prints a GetModelStatusResponse."""
    rows = [
        {
            "version": str(status.version),
            "state": status.state.name,
            "status": {"error_code": status.code.name, "error_message": status.message},
        }
        for status in statuses
    ]
    return f"{_protobuf_text({'model_version_status': rows})}\n".encode()


def metadata_json(model: str, version: int, signature_def_map: bytes) -> bytes:
    """The body of a model metadata response. `signature_def_map` is a serialized tensorflow.serving.SignatureDefMap.

    `signature_def` is doubled and the model_spec's signature_name stays empty, as in TF Serving.
    """
    parsed = get_model_metadata_pb2.SignatureDefMap.FromString(signature_def_map)
    signatures = {name: _signature(parsed.signature_def[name]) for name in sorted(parsed.signature_def)}
    spec = _protobuf_text({"name": model, "signature_name": "", "version": str(version)})
    definitions = _protobuf_text({"signature_def": signatures})
    return f'{{\n"model_spec":{spec}\n,\n"metadata": {{"signature_def": {definitions}\n}}\n}}\n'.encode()


def _signature(signature: meta_graph_pb2.SignatureDef) -> dict[str, Any]:
    """A SignatureDef as protobuf prints it: every field without presence, members of a oneof last, maps sorted."""
    plain: dict[str, Any] = json_format.MessageToDict(
        signature, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return {
        "inputs": _tensor_infos(plain["inputs"]),
        "outputs": _tensor_infos(plain["outputs"]),
        "method_name": plain["method_name"],
        "defaults": dict(sorted(plain["defaults"].items())),
    }


def _tensor_infos(infos: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    first = ("dtype", "tensor_shape")
    return {
        alias: {key: info[key] for key in (*first, *(key for key in info if key not in first)) if key in info}
        for alias, info in sorted(infos.items())
    }


def _protobuf_text(value: Any) -> str:
    """JSON with the indent and the escapes of protobuf's printer."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
