"""TensorFlow's C API, bound by ctypes from the libraries of the installed tensorflow package."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, MutableMapping
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from . import resident_pages
from .errors import PlatformError, StatusError

FRAMEWORK = "libtensorflow_framework.so.2"
CORE = "libtensorflow_cc.so.2"

DEALLOCATOR = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)
"""void (*)(void* data, size_t length, void* argument) of TF_NewTensor."""


class Output(ctypes.Structure):
    """TF_Output: the `index`-th output of an operation."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


def find() -> Path:
    """The directory with TensorFlow's libraries. Imports nothing; raises PlatformError where there is none."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise PlatformError("The Python of Triton's stub has no tensorflow package: install tensorflow for it")
    directory = Path(spec.origin).parent
    for name in (FRAMEWORK, CORE):
        if not (directory / name).exists():
            raise PlatformError(
                f"The tensorflow package in {directory} has no {name}: install tensorflow 2.16 or later"
            )
    return directory


def quiet(environment: MutableMapping[str, str]) -> None:
    """Keep TensorFlow's start-up messages out of Triton's log, unless the operator wants them."""
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def _open_lazily(path: Path) -> None:
    """Load a library and leave its functions to be found when they are called first.

    ctypes has them found at once, which takes a third of the time of a load; it meets the library loaded then. A
    failure is left to ctypes, which words it.
    """
    dlopen = getattr(ctypes.CDLL(None), "dlopen", None)
    if dlopen is not None:
        dlopen.restype, dlopen.argtypes = c_void_p, (c_char_p, c_int)
        dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_GLOBAL)


class Library:
    """The functions of the C API that the runner calls, under their names without `TF_`.

    Calls that take long release the GIL; accessors keep it, which is what makes them cheap.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in (FRAMEWORK, CORE):
            _open_lazily(directory / name)
        self._releasing = self._open(ctypes.CDLL)
        self._keeping = self._open(ctypes.PyDLL)
        short, long = self._short, self._long

        self.new_status = short("TF_NewStatus", c_void_p)
        self.delete_status = short("TF_DeleteStatus", None, c_void_p)
        self.get_code = short("TF_GetCode", c_int, c_void_p)
        self.message = short("TF_Message", c_char_p, c_void_p)

        self.load_library = long("TF_LoadLibrary", c_void_p, c_char_p, c_void_p)

        self.new_graph = short("TF_NewGraph", c_void_p)
        self.delete_graph = long("TF_DeleteGraph", None, c_void_p)
        self.graph_operation_by_name = short("TF_GraphOperationByName", c_void_p, c_void_p, c_char_p)
        self.operation_num_outputs = short("TF_OperationNumOutputs", c_int, c_void_p)
        self.operation_output_type = short("TF_OperationOutputType", c_int, Output)

        self.new_session_options = short("TF_NewSessionOptions", c_void_p)
        self.delete_session_options = short("TF_DeleteSessionOptions", None, c_void_p)
        self.set_config = short("TF_SetConfig", None, c_void_p, c_char_p, c_size_t, c_void_p)
        self.load_session_from_saved_model = long(
            "TF_LoadSessionFromSavedModel",
            c_void_p,
            *(c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, c_void_p, c_void_p),
        )
        self.session_run = long(
            "TF_SessionRun",
            None,
            *(c_void_p, c_void_p),
            *(c_void_p, c_void_p, c_int),
            *(c_void_p, c_void_p, c_int),
            *(c_void_p, c_int, c_void_p, c_void_p),
        )
        self.close_session = long("TF_CloseSession", None, c_void_p, c_void_p)
        self.delete_session = long("TF_DeleteSession", None, c_void_p, c_void_p)
        self.session_list_devices = long("TF_SessionListDevices", c_void_p, c_void_p, c_void_p)
        self.device_list_count = short("TF_DeviceListCount", c_int, c_void_p)
        self.device_list_type = short("TF_DeviceListType", c_char_p, c_void_p, c_int, c_void_p)
        self.delete_device_list = short("TF_DeleteDeviceList", None, c_void_p)

        self.allocate_tensor = short("TF_AllocateTensor", c_void_p, c_int, POINTER(c_int64), c_int, c_size_t)
        self.new_tensor = short(
            "TF_NewTensor", c_void_p, c_int, POINTER(c_int64), c_int, c_void_p, c_size_t, DEALLOCATOR, c_void_p
        )
        self.delete_tensor = short("TF_DeleteTensor", None, c_void_p)
        self.num_dims = short("TF_NumDims", c_int, c_void_p)
        self.dim = short("TF_Dim", c_int64, c_void_p, c_int)
        self.tensor_data = short("TF_TensorData", c_void_p, c_void_p)
        self.tensor_byte_size = short("TF_TensorByteSize", c_size_t, c_void_p)

        self.string_copy = short("TF_StringCopy", None, c_void_p, c_char_p, c_size_t)
        self.string_dealloc = short("TF_StringDealloc", None, c_void_p)
        self.string_get_data_pointer = short("TF_StringGetDataPointer", c_void_p, c_void_p)
        self.string_get_size = short("TF_StringGetSize", c_size_t, c_void_p)

        self.version: str = short("TF_Version", c_char_p)().decode()

    @classmethod
    def load(cls) -> Library:
        """Load TensorFlow's libraries into this process."""
        quiet(os.environ)
        directory = find()
        try:
            return cls(directory)
        except (OSError, AttributeError) as error:
            raise PlatformError(f"TensorFlow's libraries in {directory} cannot be loaded: {error}") from error

    def drop_pages(self) -> None:
        """Let go of what loading the libraries, or a model, took of their files into this process's memory."""
        resident_pages.drop(self._directory.resolve())

    def _open(self, kind: type[ctypes.CDLL]) -> tuple[ctypes.CDLL, ...]:
        # The framework first: the core library and every kernel resolve their symbols against it.
        return tuple(kind(str(self._directory / name), mode=ctypes.RTLD_GLOBAL) for name in (FRAMEWORK, CORE))

    def _short(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        return self._bind(self._keeping, name, result, arguments)

    def _long(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        return self._bind(self._releasing, name, result, arguments)

    def _bind(
        self, libraries: tuple[ctypes.CDLL, ...], name: str, result: Any, arguments: tuple[Any, ...]
    ) -> Callable[..., Any]:
        for library in reversed(libraries):
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                return function  # type: ignore[no-any-return]
        raise AttributeError(f"{name} is in neither {FRAMEWORK} nor {CORE}")


class Status:
    """A TF_Status, freed with this object."""

    __slots__ = ("_library", "pointer")

    def __init__(self, library: Library) -> None:
        self._library = library
        self.pointer: int = library.new_status()

    def check(self) -> None:
        """Raise StatusError unless the last call that got this status was well."""
        code = self._library.get_code(self.pointer)
        if code:
            raise StatusError(code, self._library.message(self.pointer).decode("utf-8", "replace"))

    def __del__(self) -> None:
        self._library.delete_status(self.pointer)
