"""Classify, Regress and MultiInference over a real server on a real Triton, asked by the official client.

Rows of TF Serving's behaviour without an outer surface, and why:
- `Expected <n> output tensor(s).  Got: <m>`, `Expected output_tensors and output_tensor_names to have the same size.`
  and `Could not find output tensor '<n>'`: a session returns what it was asked for.
- `Expected output batch size to be <n>.  Got: <m>` of Regress: the checks of shape and batch come first.
- `Cannot convert empty ClassificationResults to JSON` and its twin: empty input is refused before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Start
from tests.support import model_config, savedmodels
from tests.support.bridge_server import BridgeServer
from tests.support.model_config import Entry
from tests.support.official_client import OfficialClient

pytestmark = pytest.mark.integration

TWO = [{"x": 1.0}, {"x": 2.0, "y": 0.5}]
CLASSIFY, REGRESS, PREDICT = (f"tensorflow/serving/{method}" for method in ("classify", "regress", "predict"))
COUNTER_SIGNATURES = "get_counter"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    """A server of the kinds of models that answer questions about Examples."""
    directory = tmp_path_factory.mktemp("heads")
    kinds = ("heads", "half_plus_two", "counter")
    entries = [Entry(kind, savedmodels.make(kind, directory / kind / "123").parent) for kind in kinds]
    entries[1] = Entry("half_plus_two", directory / "half_plus_two", labels={"Version_Label": 123})
    config = model_config.write(directory / "models.config", *entries)
    with BridgeServer(directory / "bridge", f"--model_config_file={config}") as server:
        yield server


def heads(signature: str = "") -> dict[str, Any]:
    return {"name": "heads", "signature": signature}


CLASSIFIED: dict[str, tuple[dict[str, Any], list[list[list[Any]]]]] = {
    "labels and scores, in the order of the columns": (
        {"spec": heads(), "examples": TWO},
        [[["a", -1.0], ["b", 0.0], ["c", 1.0]], [["a", -2.0], ["b", 0.0], ["c", 2.0]]],
    ),
    "classes alone": ({"spec": heads("classes"), "examples": [{}]}, [[["a", 0.0], ["b", 0.0], ["c", 0.0]]]),
    "scores alone": ({"spec": heads("scores"), "examples": [{"x": 1.0}]}, [[["", -1.0], ["", 0.0], ["", 1.0]]]),
    "context for every example": (
        {"spec": heads("scores"), "context": {"x": 3.0}, "examples": [{}, {}]},
        [[["", -3.0], ["", 0.0], ["", 3.0]]] * 2,
    ),
    "the example wins over the context": (
        {"spec": heads("scores"), "context": {"x": 3.0}, "examples": [{"x": 5.0}]},
        [[["", -5.0], ["", 0.0], ["", 5.0]]],
    ),
    "one tensor under both aliases is the classes": (
        {"spec": heads("same_tensor"), "examples": [{}]},
        [[["a", 0.0], ["b", 0.0], ["c", 0.0]]],
    ),
    "half_plus_two": (
        {"spec": {"name": "half_plus_two", "signature": "classify_x_to_y"}, "examples": [{"x": 20.0}]},
        [[["", 12.0]]],
    ),
}


@pytest.mark.parametrize("case", CLASSIFIED)
def test_classify(server: BridgeServer, client: OfficialClient, case: str) -> None:
    question, result = CLASSIFIED[case]
    answer = client.ask(server.grpc, "classify", **question)
    assert answer.get("result") == result, answer
    spec = question["spec"]
    assert answer["spec"] == {
        "name": spec["name"],
        "version": 123,
        "signature": spec["signature"] or "serving_default",
    }


REGRESSED: dict[str, tuple[dict[str, Any], list[float]]] = {
    "a column": ({"spec": heads("sum"), "examples": TWO}, [1.0, 2.5]),
    "a vector": ({"spec": heads("flat"), "examples": TWO}, [1.0, 2.0]),
    "any method name": ({"spec": heads("predict_method"), "examples": TWO}, [1.0, 2.5]),
    "features that nobody asks for": (
        {
            "spec": {"name": "half_plus_two", "signature": "regress_x_to_y"},
            "examples": [{"x": 80.0, "locale": "pt_BR", "age": 19.0}],
        },
        [42.0],
    ),
    "by label": (
        {
            "spec": {"name": "half_plus_two", "signature": "regress_x_to_y", "label": "Version_Label"},
            "examples": [{"x": 80.0}],
        },
        [42.0],
    ),
    "by version": (
        {
            "spec": {"name": "half_plus_two", "signature": "regress_x_to_y2", "version": 123},
            "examples": [{"x": 2.0}],
        },
        [4.0],
    ),
}


@pytest.mark.parametrize("case", REGRESSED)
def test_regress(server: BridgeServer, client: OfficialClient, case: str) -> None:
    question, result = REGRESSED[case]
    answer = client.ask(server.grpc, "regress", **question)
    assert answer.get("result") == result, answer
    spec = question["spec"]
    assert answer["spec"] == {"name": spec["name"], "version": 123, "signature": spec["signature"]}


RESOLUTION: dict[str, tuple[dict[str, Any], str, str]] = {
    "no spec": ({"spec": None}, "INVALID_ARGUMENT", "Missing ModelSpec"),
    "no name": ({"spec": {}}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "unknown model": ({"spec": {"name": "no"}}, "NOT_FOUND", "Servable not found for request: Latest(no)"),
    "unknown version": (
        {"spec": {"name": "heads", "version": 2}},
        "NOT_FOUND",
        "Servable not found for request: Specific(heads, 2)",
    ),
    "unknown label": (
        {"spec": {"name": "heads", "label": "no"}},
        "INVALID_ARGUMENT",
        "Unrecognized servable version label: no",
    ),
    "unknown signature": (
        {"spec": heads("no")},
        "INVALID_ARGUMENT",
        "No signature was found with the name: no",
    ),
    "no default signature": (
        {"spec": {"name": "counter"}},
        "INVALID_ARGUMENT",
        "No signature was found with the name: serving_default",
    ),
    "no input": (
        {"spec": {"name": "counter", "signature": COUNTER_SIGNATURES}},
        "INVALID_ARGUMENT",
        "Expected one input Tensor.",
    ),
    "two inputs": ({"spec": heads("two_inputs")}, "INVALID_ARGUMENT", "Expected one input Tensor."),
}
"""What Classify and Regress refuse alike."""


@pytest.mark.parametrize("rpc", ["classify", "regress"])
@pytest.mark.parametrize("case", RESOLUTION)
def test_both_refuse(server: BridgeServer, client: OfficialClient, rpc: str, case: str) -> None:
    question, code, details = RESOLUTION[case]
    assert client.ask(server.grpc, rpc, **{"examples": TWO, **question}) == {"code": code, "details": details}


@pytest.mark.parametrize(
    ("rpc", "signature"), [("classify", "serving_default"), ("regress", "sum"), ("multi_inference", "sum")]
)
@pytest.mark.parametrize("question", [{}, {"examples": []}, {"context": {"x": 1.0}, "examples": []}])
def test_empty_input(
    server: BridgeServer, client: OfficialClient, rpc: str, signature: str, question: dict[str, Any]
) -> None:
    tasks = [{"spec": heads(signature), "method": REGRESS}]
    answer = client.ask(server.grpc, rpc, spec=heads(signature), tasks=tasks, **question)
    assert answer == {"code": "INVALID_ARGUMENT", "details": "Input is empty."}


DUMP = """\
inputs {
  key: "%s"
  value {
    name: "tf_example:0"
    dtype: DT_STRING
    tensor_shape {
      dim {
        size: -1
      }
    }
  }
}
outputs {
  key: "%s"
  value {
    name: "ParseExample/ParseExampleV2:%d"
    dtype: DT_FLOAT
    tensor_shape {
      dim {
        size: -1
      }
      dim {
        size: 1
      }
    }
  }
}
method_name: "tensorflow/serving/%s"
"""

CLASSIFY_REFUSED = {
    "third_output": "Expected one or two output Tensors, found 3",
    "renamed_input": "No classification inputs found in SignatureDef: " + DUMP % ("examples", "scores", 0, "classify"),
    "strange_outputs": 'Expected classification signature outputs to contain at least one of "classes" or "scores". '
    "Signature was: " + DUMP % ("inputs", "y", 1, "classify"),
    "classes_of_rank_3": "Expected Tensor shape: [batch_size num_classes] but got [1,2,3]",
    "scores_of_rank_1": "Expected Tensor shape: [batch_size num_classes] but got [6]",
    "float_classes": "Expected classes Tensor of DT_STRING. Got: DT_FLOAT",
    "double_scores": "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE",
    "more_classes": "Expected classes output batch size of 2. Got: 3",
    "more_scores": "Expected scores output batch size of 2. Got: 3",
    "two_classes": "Tensors class and score should match in dim_size(1). Got 2 vs. 3",
}
REGRESS_REFUSED = {
    "two_outputs": "Expected one output Tensor.",
    "renamed_input": "No regression inputs found in SignatureDef: " + DUMP % ("examples", "scores", 0, "classify"),
    "renamed_output": "No regression outputs found in SignatureDef: " + DUMP % ("inputs", "y", 0, "regress"),
    "wide": "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got [2,3]",
    "scalar": "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got []",
    "more_outputs": "Input batch size did not match output batch size: 2 vs. 3",
    "double_outputs": "Expected output Tensor of DT_FLOAT.  Got: DT_DOUBLE",
}


@pytest.mark.parametrize(
    ("rpc", "signature", "details"),
    [("classify", *row) for row in CLASSIFY_REFUSED.items()] + [("regress", *row) for row in REGRESS_REFUSED.items()],
)
def test_structures_that_are_refused(
    server: BridgeServer, client: OfficialClient, rpc: str, signature: str, details: str
) -> None:
    answer = client.ask(server.grpc, rpc, spec=heads(signature), examples=TWO)
    assert answer == {"code": "INVALID_ARGUMENT", "details": details}


@pytest.mark.parametrize("rpc", ["classify", "regress"])
def test_the_graph_parses_the_examples(server: BridgeServer, client: OfficialClient, rpc: str) -> None:
    spec = {"name": "half_plus_two", "signature": f"{rpc}_x_to_y"}
    node = "\n\t [[{{node ParseExample/ParseExampleV2}}]]"
    for example, text in {
        "y": "Name: <unknown>, Feature: x (data type: float) is required but could not be found.",
        "x": "Name: <unknown>, Key: x, Index: 0.  Data types don't match. Data type: int64 but expected type: float",
    }.items():
        answer = client.ask(server.grpc, rpc, spec=spec, examples=[{example: 2}])
        assert answer == {"code": "INVALID_ARGUMENT", "details": text + node}
    answer = client.ask(server.grpc, "regress", spec={**spec, "signature": "regress_x2_to_y3"}, examples=[{"x2": 2.0}])
    assert answer["details"] == "Expects arg[0] to be float but string is provided"


def task(signature: str, method: str, name: str = "heads") -> dict[str, Any]:
    return {"spec": {"name": name, "signature": signature}, "method": method}


def test_multi_inference_in_the_order_of_the_tasks(server: BridgeServer, client: OfficialClient) -> None:
    tasks = [
        task("regress_x_to_y", REGRESS, "half_plus_two"),
        task("regress_x_to_y2", REGRESS, "half_plus_two"),
        task("classify_x_to_y", CLASSIFY, "half_plus_two"),
    ]
    answer = client.ask(server.grpc, "multi_inference", tasks=tasks, examples=[{"x": 2.0}])
    spec = {"name": "half_plus_two", "version": 123}
    assert answer["results"] == [
        {"spec": {**spec, "signature": "regress_x_to_y"}, "regression_result": [3.0]},
        {"spec": {**spec, "signature": "regress_x_to_y2"}, "regression_result": [4.0]},
        {"spec": {**spec, "signature": "classify_x_to_y"}, "classification_result": [[["", 3.0]]]},
    ]


def test_multi_inference_is_one_session_run(server: BridgeServer, client: OfficialClient) -> None:
    tasks = [task("counted_scores", CLASSIFY), task("counted_outputs", REGRESS)]
    counts = []
    for _ in range(3):
        results = client.ask(server.grpc, "multi_inference", tasks=tasks, examples=[{}])["results"]
        [[[[_, score]]], [output]] = results[0]["classification_result"], results[1]["regression_result"]
        assert score == output, "both answers come from one run"
        counts.append(score)
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]


def test_multi_inference_feeds_every_input(server: BridgeServer, client: OfficialClient) -> None:
    tasks = [task("other_input", REGRESS), task("", CLASSIFY), task("predict_method", REGRESS)]
    results = client.ask(server.grpc, "multi_inference", tasks=tasks, examples=[{"x": 1.0}])["results"]
    assert [result["spec"]["signature"] for result in results] == ["other_input", "serving_default", "predict_method"]
    assert [results[0]["regression_result"], results[2]["regression_result"]] == [[1.0], [1.0]]
    assert results[1]["classification_result"] == [[["a", -1.0], ["b", 0.0], ["c", 1.0]]]


def test_multi_inference_takes_the_version_of_the_first_task(server: BridgeServer, client: OfficialClient) -> None:
    second = {"spec": {"name": "heads", "signature": "flat", "version": 99}, "method": REGRESS}
    answer = client.ask(server.grpc, "multi_inference", tasks=[task("sum", REGRESS), second], examples=TWO)
    assert [result["spec"]["version"] for result in answer["results"]] == [123, 123]
    answer = client.ask(server.grpc, "multi_inference", tasks=[second, task("sum", REGRESS)], examples=TWO)
    assert answer == {"code": "NOT_FOUND", "details": "Servable not found for request: Specific(heads, 99)"}


SUM = task("sum", REGRESS)
MULTI_REFUSED: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "no task": ([], "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "a first task without spec": ([{"method": REGRESS}, SUM], "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "unknown model": ([task("sum", REGRESS, "no")], "NOT_FOUND", "Servable not found for request: Latest(no)"),
    "a later task without name": (
        [SUM, {"method": REGRESS}],
        "INVALID_ARGUMENT",
        "Found ModelSpec with an empty model name.",
    ),
    "two models": (
        [SUM, task("regress_x_to_y", REGRESS, "half_plus_two")],
        "INVALID_ARGUMENT",
        "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
    ),
    "a signature twice": ([SUM, SUM], "INVALID_ARGUMENT", "Duplicate evaluation of signature: sum"),
    "the default twice": (
        [task("", CLASSIFY), task("serving_default", CLASSIFY)],
        "INVALID_ARGUMENT",
        "Duplicate evaluation of signature: serving_default",
    ),
    "unknown signature": (
        [SUM, task("no", REGRESS)],
        "INVALID_ARGUMENT",
        "Requested signature not found in model graph: no",
    ),
    "predict": ([task("sum", PREDICT)], "UNIMPLEMENTED", f"Unsupported signature method_name: {PREDICT}"),
    "no method": ([SUM, task("flat", "")], "UNIMPLEMENTED", "Unsupported signature method_name: "),
    "a structure": ([SUM, task("two_inputs", CLASSIFY)], "INVALID_ARGUMENT", "Expected one input Tensor."),
    "an answer": (
        [SUM, task("more_scores", CLASSIFY)],
        "INVALID_ARGUMENT",
        "Expected scores output batch size of 2. Got: 3",
    ),
}


@pytest.mark.parametrize("case", MULTI_REFUSED)
def test_multi_inference_refuses(server: BridgeServer, client: OfficialClient, case: str) -> None:
    tasks, code, details = MULTI_REFUSED[case]
    answer = client.ask(server.grpc, "multi_inference", tasks=tasks, examples=TWO)
    assert answer == {"code": code, "details": details}


def test_a_failing_run_fails_every_call_with_its_text(server: BridgeServer, client: OfficialClient) -> None:
    tasks = [SUM, task("needs_z", CLASSIFY)]
    for answer in (
        client.ask(server.grpc, "classify", spec=heads("needs_z"), examples=TWO),
        client.ask(server.grpc, "multi_inference", tasks=tasks, examples=TWO),
    ):
        assert answer["code"] == "INVALID_ARGUMENT"
        assert answer["details"].startswith("Name: <unknown>, Feature: z (data type: float) is required")


METHOD_CHECKED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "predict": (
        "predict",
        {"spec": heads("odd_method"), "inputs": {"inputs": {"dtype": "string", "values": [""]}}},
        "INTERNAL",
        f"Expected prediction signature method_name to be one of {{{PREDICT}, {CLASSIFY}, {REGRESS}}}. "
        "Was: not/supported/method",
    ),
    "classify": (
        "classify",
        {"spec": heads("sum"), "examples": TWO},
        "INVALID_ARGUMENT",
        f"Expected classification signature method_name to be {CLASSIFY}. Was: {REGRESS}",
    ),
    "regress": (
        "regress",
        {"spec": heads("predict_method"), "examples": TWO},
        "INVALID_ARGUMENT",
        f"Expected regression signature method_name to be {REGRESS}. Was: {PREDICT}",
    ),
    "multi_inference": (
        "multi_inference",
        {"tasks": [SUM, task("predict_method", REGRESS)], "examples": TWO},
        "INVALID_ARGUMENT",
        f"Expected regression signature method_name to be {REGRESS}. Was: {PREDICT}",
    ),
}


def test_method_names_are_checked_on_demand(
    server: BridgeServer, client: OfficialClient, start: Start, tmp_path: Path
) -> None:
    savedmodels.make("heads", tmp_path / "heads" / "1")
    flags = ("--model_name=heads", f"--model_base_path={tmp_path}/heads", "--enable_signature_method_name_check=true")
    checking = start(*flags)
    for rpc, question, code, details in METHOD_CHECKED.values():
        assert client.ask(checking.grpc, rpc, **question) == {"code": code, "details": details}
    assert client.ask(checking.grpc, "regress", spec=heads("sum"), examples=TWO)["result"] == [1.0, 2.5]
    for rpc in ("predict", "regress"):
        unchecked = client.ask(server.grpc, rpc, **METHOD_CHECKED[rpc][1])
        assert "code" not in unchecked
