"""SavedModels with ops that TensorFlow does not have itself."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from model_repo_sync.runner.tensorflow_engine import op_libraries
from model_repo_sync.runner.tensorflow_engine.errors import StatusError
from tests.runner.served import Served, floats, strings
from tests.support import custom_op, savedmodels
from tests.support.tritonserver import TritonServer

Serve = Callable[..., Served]


@pytest.fixture(scope="module")
def library() -> Path:
    return custom_op.library()


@pytest.fixture(scope="module")
def saved_model(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "custom_op"
    return savedmodels.make("custom_op", directory / "1", library=str(library))


def load_error(triton: TritonServer, repository: Path, saved_model: Path, *libraries: str) -> str:
    with pytest.raises(InferenceServerException) as failed:
        Served.load(triton, repository, saved_model, op_libraries=libraries)
    return str(failed.value.message())


@pytest.mark.integration
def test_a_named_library_brings_its_ops(
    triton: TritonServer, workplace: Path, saved_model: Path, library: Path
) -> None:
    model = Served.load(triton, workplace / "repository", saved_model, op_libraries=(str(library),))
    assert model.call({"x:0": floats(1, -2.5)}, ["y:0"]) == [floats(-1, 2.5)]


@pytest.mark.integration
def test_an_op_that_nobody_has_is_the_models_fault(triton: TritonServer, workplace: Path, saved_model: Path) -> None:
    text = load_error(triton, workplace / "repository", saved_model)
    assert "tf_status=5 Op type not registered 'BridgeTestNegate'" in text


@pytest.mark.integration
def test_a_library_that_cannot_be_loaded_is_the_platforms_fault(
    triton: TritonServer, workplace: Path, saved_model: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("no library")
    for path in (broken, tmp_path / "missing.so"):
        text = load_error(triton, workplace / "repository", saved_model, str(path))
        assert f"PlatformError: The op library {path} cannot be loaded: " in text
        assert "tf_status" not in text


@pytest.mark.integration
@pytest.mark.skipif(
    importlib.util.find_spec(op_libraries.TEXT_PACKAGE) is None, reason="the package tensorflow-text is not installed"
)
def test_tensorflow_text_is_there_without_a_setting(serve: Serve) -> None:
    model = serve("text")
    feeds = {"x:0": strings("Ein Straßen Name".encode())}
    assert model.call(feeds, ["y:0"]) == [strings(b"ein", b"strassen", b"name")]


class TensorFlow:
    """A double of the C API whose TF_LoadLibrary refuses files with `broken` in their names."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def new_status(self) -> list[str]:
        return []

    def delete_status(self, status: list[str]) -> None:
        """There is nothing to free."""

    def get_code(self, status: list[str]) -> int:
        return 5 if status else 0

    def message(self, status: list[str]) -> bytes:
        return status[0].encode()

    def load_library(self, path: bytes, status: list[str]) -> None:
        if b"broken" in path:
            status.append("undefined symbol")
        else:
            self.loaded.append(Path(path.decode()).name)


@pytest.fixture
def text_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of TensorFlow Text without a file; Python's path leads to no other."""
    package = tmp_path / "site" / op_libraries.TEXT_PACKAGE
    (package / "python" / "ops").mkdir(parents=True)
    (package / "core").mkdir()
    (package / "__init__.py").touch()
    (package / "core" / "_bindings.so").touch()
    monkeypatch.setattr(sys, "path", [str(package.parent)])
    monkeypatch.delitem(sys.modules, op_libraries.TEXT_PACKAGE, raising=False)
    return package


def test_what_fits_of_tensorflow_text_is_loaded(text_package: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("_words.so", "_broken.so", "_ngrams_op.so", "helper.so"):
        (text_package / "python" / "ops" / name).touch()
    tensorflow = TensorFlow()
    with caplog.at_level(logging.WARNING):
        assert op_libraries.load_tensorflow_text(tensorflow)  # type: ignore[arg-type]
    assert tensorflow.loaded == ["_ngrams_op.so", "_words.so"]
    broken = text_package / "python" / "ops" / "_broken.so"
    assert f"The op library {broken} cannot be loaded: undefined symbol" in caplog.text


def test_an_empty_package_of_tensorflow_text_changes_nothing(text_package: Path) -> None:
    assert not op_libraries.load_tensorflow_text(TensorFlow())  # type: ignore[arg-type]


def test_without_the_package_there_is_no_tensorflow_text(text_package: Path) -> None:
    shutil.rmtree(text_package)
    assert op_libraries.find_tensorflow_text() == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [("Op type not registered 'Negate' in binary running on host.", True), ("Could not find SavedModel", False)],
)
def test_how_a_missing_op_is_recognised(text: str, missing: bool) -> None:
    assert op_libraries.is_missing(StatusError(5, text)) is missing
