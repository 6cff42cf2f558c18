"""A SavedModel served by the runner from a real tritonserver, called as the bridge calls it."""

from __future__ import annotations

import itertools
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from model_repo_sync.runner.tensorflow_engine.dtypes import DTYPES
from model_repo_sync.triton_config import RunnerOptions
from tests.support import savedmodels
from tests.support.savedmodels import Array
from tests.support.tritonserver import TritonServer, write_saved_model

_numbers = itertools.count()


class Refused(Exception):
    """Triton answered an error; `code` and `text` are TensorFlow's where the runner passed them on."""

    def __init__(self, error: grpc.RpcError) -> None:
        details = error.details() or ""
        super().__init__(details)
        self.grpc_code = error.code()
        self.details = details
        match = re.search(r"tf_status=(\d+) (.*)", details, re.DOTALL)
        self.code = int(match[1]) if match else None
        self.text: str = match[2] if match else details


class Served:
    """One Triton model. `signatures` are those of the SavedModel, as `savedmodels.signatures` tells them."""

    def __init__(
        self,
        triton: TritonServer,
        name: str,
        saved_model: Path,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
    ) -> None:
        self.triton = triton
        self.name = name
        self.saved_model = saved_model
        self._inputs = inputs
        self._outputs = {**outputs, "bridge.runner": 7}
        self._channel = grpc.insecure_channel(
            f"127.0.0.1:{triton.grpc_port}",
            options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
        )
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._infer = stub.ModelInfer
        self.statistics = stub.ModelStatistics

    @classmethod
    def load(cls, triton: TritonServer, repository: Path, saved_model: Path, **options: Any) -> Served:
        inputs: dict[str, int] = {}
        outputs: dict[str, int] = {}
        for signature in savedmodels.signatures(saved_model).values():
            inputs |= {name: dtype % 100 for name, dtype, _ in signature["inputs"].values()}
            outputs |= {name: dtype % 100 for name, dtype, _ in signature["outputs"].values()}
        name = f"tfs.00000000.{saved_model.parent.name.replace('_', '__')}.{next(_numbers)}"
        write_saved_model(repository, name, saved_model, RunnerOptions(**options))
        triton.client().load_model(name)
        return cls(triton, name, saved_model, inputs, outputs)

    def call(self, feeds: Mapping[str, Array], fetches: Sequence[str], **options: Any) -> list[Array]:
        """Outputs in the order of `fetches`. Raises Refused."""
        try:
            return self._arrays(self._infer(self.request(feeds, fetches, **options), timeout=60), fetches)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def start(self, feeds: Mapping[str, Array], fetches: Sequence[str], **options: Any) -> Any:
        """The same as a future of grpc; `outcome` tells what became of it."""
        return self._infer.future(self.request(feeds, fetches, **options), timeout=60)

    def outcome(self, future: Future[Any], fetches: Sequence[str]) -> list[Array] | Refused:
        try:
            return self._arrays(future.result(), fetches)
        except grpc.RpcError as error:
            return Refused(error)

    def equals_tensorflow(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        """The answer, after comparing it bit for bit with that of TensorFlow's session."""
        answer = self.call(feeds, fetches)
        assert answer == savedmodels.run(self.saved_model, feeds, fetches)
        return answer

    def fails_as_tensorflow(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> Refused:
        """The error, after comparing code and text with those of TensorFlow's session."""
        with pytest.raises(savedmodels.TensorFlowError) as expected:
            savedmodels.run(self.saved_model, feeds, fetches)
        with pytest.raises(Refused) as refused:
            self.call(feeds, fetches)
        assert (refused.value.code, refused.value.text) == (expected.value.code, expected.value.text)
        return refused.value

    def named(self, signature: str, feeds: Mapping[str, Array]) -> tuple[dict[str, Array], list[str]]:
        """The feeds by tensor name instead of alias, and all outputs of the signature, sorted by alias."""
        sides = savedmodels.signatures(self.saved_model)[signature]
        outputs = [sides["outputs"][alias][0] for alias in sorted(sides["outputs"])]
        return {sides["inputs"][alias][0]: array for alias, array in feeds.items()}, outputs

    def describe(self) -> dict[str, Any]:
        [answer] = self.call({}, ["bridge.runner"])
        assert isinstance(answer.data, list)
        description: dict[str, Any] = json.loads(answer.data[0])
        return description

    def request(
        self,
        feeds: Mapping[str, Array],
        fetches: Sequence[str],
        shapes: Mapping[str, Any] | None = None,
        timeout_microseconds: int = 0,
    ) -> Any:
        request = service_pb2.ModelInferRequest(model_name=self.name)
        for name, array in feeds.items():
            dtype = DTYPES[self._inputs.get(name, array.dtype)]
            elements = math.prod(array.shape) * dtype.multiplicity
            request.inputs.add(name=name, datatype=dtype.triton, shape=[elements])
            request.raw_input_contents.append(_packed(array.data))
        if not feeds:
            request.inputs.add(name="bridge.noop", datatype="UINT8", shape=[1])
            request.raw_input_contents.append(b"\0")
        true_shapes = {name: list(array.shape) for name, array in feeds.items() if len(array.shape) != 1}
        true_shapes |= shapes or {}
        if true_shapes:
            request.parameters["shapes"].string_param = json.dumps(true_shapes)
        if timeout_microseconds:
            request.parameters["timeout"].int64_param = timeout_microseconds
        for name in fetches:
            request.outputs.add(name=name)
        return request

    def _arrays(self, response: Any, fetches: Sequence[str]) -> list[Array]:
        found = {}
        for output, data in zip(response.outputs, response.raw_output_contents, strict=True):
            dtype = DTYPES[self._outputs[output.name]]
            shape = tuple(output.shape)
            assert output.datatype == dtype.triton
            assert output.name not in found
            if dtype.multiplicity > 1:
                assert shape[-1] == dtype.multiplicity
                shape = shape[:-1]
            found[output.name] = Array(dtype.number, shape, _unpacked(data) if dtype.is_string else data)
        assert sorted(found) == sorted(set(fetches))
        return [found[name] for name in fetches]


def floats(*values: float, shape: Sequence[int] | None = None) -> Array:
    data = struct.pack(f"<{len(values)}f", *values)
    return Array(1, tuple(shape) if shape is not None else (len(values),), data)


def strings(*values: bytes, shape: Sequence[int] | None = None) -> Array:
    return Array(7, tuple(shape) if shape is not None else (len(values),), list(values))


def int32(value: int) -> Array:
    return Array(3, (), struct.pack("<i", value))


def int64s(*values: int) -> Array:
    return Array(9, (len(values),), struct.pack(f"<{len(values)}q", *values))


def _packed(data: bytes | list[bytes]) -> bytes:
    if isinstance(data, bytes):
        return data
    return b"".join(struct.pack("<I", len(value)) + value for value in data)


def _unpacked(data: bytes) -> list[bytes]:
    values, offset = [], 0
    while offset < len(data):
        (size,) = struct.unpack_from("<I", data, offset)
        values.append(data[offset + 4 : offset + 4 + size])
        offset += 4 + size
    return values
