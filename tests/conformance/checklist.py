"""Which test holds which row of the checklists of TensorFlow Serving's behaviour.

The sections are numbered as in the specification of tensorflow_model_server that the project is built to. A row names
tests by their path below tests/; a function stands for all of its cases. `Held` rows are asked of a real server on a
real Triton, by the official client or by HTTP, in at least one of their tests. An `Inner` row has no outer surface; its
reason says why, and its tests hold it where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, init=False)
class Held:
    tests: tuple[str, ...]

    def __init__(self, *tests: str) -> None:
        object.__setattr__(self, "tests", tests)


@dataclass(frozen=True, init=False)
class Inner:
    reason: str
    tests: tuple[str, ...]

    def __init__(self, reason: str, *tests: str) -> None:
        object.__setattr__(self, "reason", reason)
        object.__setattr__(self, "tests", tests)


Rows = Mapping[str, Held | Inner]

BATCHING = "acceptance/test_batching.py::"
CONFIGURATION = "conformance/test_configuration.py::"
DROP_IN = "acceptance/test_drop_in.py::"
EXAMPLES = "acceptance/test_inference_surface.py::"
GRPC = "acceptance/test_grpc_surface.py::"
JSON_EXAMPLES = "acceptance/test_rest_examples.py::"
LIFECYCLE = "acceptance/test_lifecycle.py::"
MONITORING = "acceptance/test_monitoring.py::"
PREDICT = "conformance/test_predict.py::"
RELOAD = "acceptance/test_reload.py::"
REST = "acceptance/test_rest_checklist.py::"
TRANSPORT = "acceptance/test_grpc_transport.py::"
WARMUP = "acceptance/test_warmup.py::"

BACKEND = "runner/test_batched_models.py::"
"""The runner in a real Triton, without the bridge."""
COMMAND = "cli/test_tensorflow_model_server.py::"
START = "tfserving/test_start_check.py::"
TRANSITION = "lifecycle/test_transition.py::test_availability_first"
METRICS = "tfserving/test_metrics.py::"

REFUSES = GRPC + "test_predict_refuses_as_tf_serving_does"
REST_REFUSES = REST + "test_predict_refuses"
TENSORS = REST + "test_tensors_there_and_back"
STRUCTURES = EXAMPLES + "test_structures_that_are_refused"
TASKS = EXAMPLES + "test_multi_inference_refuses"
BOTH = EXAMPLES + "test_both_refuse"
JSON_BOTH = JSON_EXAMPLES + "test_both_refuse"
A_RELOAD = CONFIGURATION + "test_a_reload_is_refused_and_changes_nothing"


def case(test: str, name: str) -> str:
    return f"{test}[{name}]"


RESOLUTION: Rows = {
    "no ModelSpec": Held(
        case(REFUSES, "no spec"),
        case(BOTH, "no spec-classify"),
        case(BOTH, "no spec-regress"),
        GRPC + "test_metadata_refuses",
        GRPC + "test_status",
    ),
    "no name": Held(
        case(REFUSES, "no name"),
        case(BOTH, "no name-classify"),
        case(BOTH, "no name-regress"),
        PREDICT + "test_metadata_refuses",
    ),
    "a version that is not ready": Held(
        case(REFUSES, "unknown version"), case(REFUSES, "version of no model"), PREDICT + "test_version_0_is_a_version"
    ),
    "an unknown label, of a model or of none": Held(case(REFUSES, "unknown label"), case(REFUSES, "label of no model")),
    "a label": Held(
        GRPC + "test_a_version_is_chosen", CONFIGURATION + "test_labels_are_replaced_and_outlive_their_version"
    ),
    "a label before any configuration": Inner(
        "a server starts with a configuration or not at all",
        "serving/test_resolve.py::test_labels_wait_for_the_first_configuration",
    ),
    "the latest version": Held(GRPC + "test_a_version_is_chosen", case(REFUSES, "unknown model")),
    "a servable of another type": Inner("every servable is a SavedModel"),
}

PREDICTING: Rows = {
    "unknown signature": Held(case(REFUSES, "unknown signature")),
    "method names on demand": Held(EXAMPLES + "test_method_names_are_checked_on_demand"),
    "how many inputs": Held(
        case(REFUSES, "too few inputs"),
        case(REFUSES, "too many inputs"),
        case(PREDICT + "test_predict_refuses", "too many in spite of a default"),
        case(PREDICT + "test_predict_refuses", "too few without a default"),
    ),
    "an input that is missing": Held(
        case(REFUSES, "another input"), case(PREDICT + "test_predict_refuses", "an input without default")
    ),
    "defaults of the signature": Held(PREDICT + "test_missing_inputs_come_from_the_signature"),
    "a tensor that cannot be read": Held(TRANSPORT + "test_tensors_that_cannot_be_read"),
    "a name that nothing uses": Held(case(PREDICT + "test_predict_refuses", "a name beside the default")),
    "an unknown output": Held(case(REFUSES, "unknown output")),
    "an output twice": Held(case(REFUSES, "repeated output")),
    "only what is asked for is answered": Held(GRPC + "test_one_tensor_under_two_aliases"),
    "dtypes are the graph's": Held(
        case(REFUSES, "wrong dtype"),
        case(REFUSES, "string for a number"),
        case(REFUSES, "dtype of the graph, not of TensorInfo"),
        case(PREDICT + "test_predict_refuses", "the second of two arguments"),
    ),
    "shapes are nobody's": Held(GRPC + "test_any_shape_is_fed"),
    "a placeholder that nobody feeds": Held(case(PREDICT + "test_predict_refuses", "a placeholder that nobody feeds")),
    "fewer outputs than asked for": Inner(
        "a session answers whatever it is asked for", "serving/test_predict.py::test_a_missing_output_is_unknown"
    ),
    "the response's ModelSpec": Held(GRPC + "test_a_version_is_chosen"),
    "typed fields, and always a shape": Held(GRPC + "test_a_version_is_chosen", TRANSPORT + "test_encodings"),
    "tensor_content on demand": Held(TRANSPORT + "test_tensor_content_on_demand"),
    "both encodings come in": Held(TRANSPORT + "test_encodings"),
}

METHOD_NAMES: Rows = {
    "off by default": Held(case(EXAMPLES + "test_regress", "any method name"), EXAMPLES + "test_classify"),
    "on": Held(EXAMPLES + "test_method_names_are_checked_on_demand"),
}

CLASSIFYING: Rows = {
    "unknown signature": Held(case(BOTH, "unknown signature-classify"), case(BOTH, "no default signature-classify")),
    "one input": Held(case(BOTH, "two inputs-classify"), case(BOTH, "no input-classify")),
    "one or two outputs": Held(STRUCTURES),
    "the input's name": Held(STRUCTURES),
    "the outputs' names": Held(STRUCTURES),
    "empty input": Held(EXAMPLES + "test_empty_input"),
    "input that cannot be serialised": Inner(
        "Examples travel as the bytes that they came as", "codec/test_examples.py::test_examples_stay_as_they_came"
    ),
    "context is merged, the example wins": Held(
        case(EXAMPLES + "test_classify", "context for every example"),
        case(EXAMPLES + "test_classify", "the example wins over the context"),
    ),
    "strings are fed whatever is declared": Held(PREDICT + "test_predict_feeds_examples_as_strings", STRUCTURES),
    "how many outputs came": Inner("a session answers whatever it is asked for"),
    "the outputs' ranks": Held(STRUCTURES),
    "the outputs' dtypes": Held(STRUCTURES),
    "the outputs' batch": Held(STRUCTURES),
    "as many classes as scores": Held(STRUCTURES),
    "labels and scores in the order of the columns": Held(EXAMPLES + "test_classify"),
    "errors of a run go through": Held(EXAMPLES + "test_a_failing_run_fails_every_call_with_its_text"),
}

REGRESSING: Rows = {
    "unknown signature": Held(case(BOTH, "unknown signature-regress"), case(BOTH, "no default signature-regress")),
    "one input": Held(case(BOTH, "two inputs-regress"), case(BOTH, "no input-regress")),
    "one output": Held(STRUCTURES),
    "the input's name": Held(STRUCTURES),
    "the output's name": Held(STRUCTURES),
    "what a session forgot": Inner("a session answers whatever it is asked for"),
    "the output's shape": Held(STRUCTURES),
    "the output's batch": Held(STRUCTURES),
    "the output's dtype": Held(STRUCTURES),
    "the batch once more": Inner("the checks of shape and batch come first"),
    "values": Held(EXAMPLES + "test_regress"),
}

MULTI_INFERENCE: Rows = {
    "no task, or a first one without ModelSpec": Held(
        case(TASKS, "no task"), case(TASKS, "a first task without spec"), case(TASKS, "unknown model")
    ),
    "the first task chooses the version": Held(EXAMPLES + "test_multi_inference_takes_the_version_of_the_first_task"),
    "a later task without a name": Held(case(TASKS, "a later task without name")),
    "two models": Held(case(TASKS, "two models")),
    "a signature twice": Held(case(TASKS, "a signature twice"), case(TASKS, "the default twice")),
    "unknown signature": Held(case(TASKS, "unknown signature")),
    "structures": Held(case(TASKS, "a structure")),
    "other method names": Held(case(TASKS, "predict"), case(TASKS, "no method")),
    "empty input": Held(EXAMPLES + "test_empty_input"),
    "one session run": Held(
        EXAMPLES + "test_multi_inference_is_one_session_run", EXAMPLES + "test_multi_inference_feeds_every_input"
    ),
    "results in the order of the tasks": Held(EXAMPLES + "test_multi_inference_in_the_order_of_the_tasks"),
    "one failure fails all": Held(case(TASKS, "an answer")),
}

METADATA: Rows = {
    "no ModelSpec": Held(GRPC + "test_metadata_refuses"),
    "no field": Held(GRPC + "test_metadata_refuses"),
    "another field": Held(GRPC + "test_metadata_refuses"),
    "resolution": Held(GRPC + "test_metadata_refuses", PREDICT + "test_metadata_refuses"),
    "all signatures, no signature_name": Held(
        GRPC + "test_metadata_shows_the_whole_signature_map",
        PREDICT + "test_metadata_shows_defaults_references_and_the_init_op",
    ),
}

STATUS: Rows = {
    "no ModelSpec": Held(GRPC + "test_status"),
    "no name": Held(GRPC + "test_status"),
    "one version": Held(GRPC + "test_status"),
    "a label is not looked at": Held(GRPC + "test_status"),
    "highest first, ended ones too": Held(
        GRPC + "test_status", LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes"
    ),
    "health": Held(
        MONITORING + "test_health", MONITORING + "test_health_of_an_unknown_name", MONITORING + "test_without_the_flags"
    ),
    "profiler": Held(TRANSPORT + "test_unknown_methods", "conformance/test_unserved.py::test_the_profiler_says_so"),
}

RELOADING: Rows = {
    "no list of models": Held(case(A_RELOAD, "no list"), case(A_RELOAD, "a custom configuration")),
    "it waits for new models": Held(
        RELOAD + "test_models_come_and_go",
        RELOAD + "test_a_base_path_without_versions_times_out",
        CONFIGURATION + "test_a_reload_waits_for_the_one_before",
    ),
    "omitted models go": Held(RELOAD + "test_models_come_and_go"),
    "new versions of known models are not waited for": Held(RELOAD + "test_policies_change_without_a_wait"),
    "success has an empty status": Held(RELOAD + "test_models_come_and_go"),
    "metric_names": Held(RELOAD + "test_models_come_and_go", MONITORING + "test_a_reload_tells_how_a_metric_grew"),
}

JSON_REQUESTS: Rows = {
    "parse errors": Held(REST + "test_bodies_are_checked_in_order"),
    "tokens, nesting, what follows, equal keys, unknown keys": Held(
        case(TENSORS, "NaN and Infinity"),
        case(TENSORS, "unknown keys"),
        case(TENSORS, "trailing garbage"),
        case(TENSORS, "the first of equal keys"),
        REST + "test_a_deep_signature_name",
        "codec/test_json_body.py::test_accepts",
    ),
    "signature_name": Held(REST + "test_bodies_are_checked_in_order", REST + "test_a_deep_signature_name"),
    "resolution and signature, in order": Held(REST + "test_bodies_are_checked_in_order"),
    "both keys": Held(case(REST_REFUSES, "both keys")),
    "no key": Held(case(REST_REFUSES, "no key")),
    "dumps are cut": Inner(
        "the cut is inside of sentences that a server shows whole",
        "codec/test_json_text.py::test_long_values_are_cut_after_a_whole_token",
    ),
    "rows: a list with something in it": Held(case(REST_REFUSES, "no list"), case(REST_REFUSES, "empty")),
    "rows: plain ones for one input": Held(case(REST_REFUSES, "plain list")),
    "rows: all of a kind": Held(case(REST_REFUSES, "list among objects"), case(REST_REFUSES, "object among lists")),
    "rows: the inputs, no more and no less": Held(
        case(REST_REFUSES, "unknown input"),
        case(REST_REFUSES, "missing input"),
        PREDICT + "test_rest_does_not_fill_in_defaults",
    ),
    "rows: sizes and shapes": Held(
        case(REST_REFUSES, "sizes"), case(REST_REFUSES, "shapes"), case(REST_REFUSES, "ranks")
    ),
    "columns: plain ones for one input": Held(case(REST_REFUSES, "plain column")),
    "columns: every input, others are ignored": Held(
        case(REST_REFUSES, "missing column"), case(TENSORS, "ignored columns")
    ),
    "levels": Held(case(REST_REFUSES, "level"), case(REST_REFUSES, "deeper"), case(REST_REFUSES, "ragged")),
    "empty lists": Held(case(TENSORS, "empty lists"), case(TENSORS, "an empty column")),
    "FLOAT and DOUBLE": Held(
        case(TENSORS, "floats"),
        case(TENSORS, "doubles"),
        case(TENSORS, "overflow of floats"),
        case(TENSORS, "underflow of floats"),
    ),
    "integers": Held(
        case(TENSORS, "narrow integers wrap"),
        case(TENSORS, "int64"),
        case(TENSORS, "uint32"),
        case(TENSORS, "uint64"),
        case(REST_REFUSES, "a fraction for an integer"),
        case(REST_REFUSES, "past int32"),
        case(REST_REFUSES, "past int64"),
        case(REST_REFUSES, "negative"),
    ),
    "BOOL": Held(case(TENSORS, "bool"), case(REST_REFUSES, "number for bool"), case(REST_REFUSES, "bool for number")),
    "STRING": Held(
        case(TENSORS, "escapes"),
        case(TENSORS, "base64 scalars"),
        case(REST_REFUSES, "number for string"),
        case(REST_REFUSES, "bad base64 object"),
        case(REST_REFUSES, "bad base64"),
    ),
    "null": Held(case(REST_REFUSES, "null")),
    "other dtypes": Held(REST + "test_dtypes_without_a_json_form"),
}

JSON_RESPONSES: Rows = {
    "no outputs": Inner("a signature that can be called has an output", "codec/test_rest_response.py::test_no_outputs"),
    "rows need a batch": Held(
        case(REST_REFUSES, "a scalar output in rows"), case(REST_REFUSES, "uneven outputs"), case(TENSORS, "no rows")
    ),
    "columns": Held(case(TENSORS, "a scalar output in columns"), case(TENSORS, "columns of objects")),
    "strings and _bytes": Held(case(TENSORS, "rows of objects"), REST + "test_bytes_that_are_no_text_come_back_raw"),
    "dtypes that cannot be written": Held(REST + "test_dtypes_without_a_json_form"),
    "numbers": Held(case(TENSORS, "number text"), case(TENSORS, "number text of doubles"), "codec/test_number_text.py"),
    "layout": Held("acceptance/test_rest_surface.py::test_predict", "codec/test_rest_response.py::test_layout"),
}

JSON_EXAMPLE_REQUESTS: Rows = {
    "context": Held(case(JSON_EXAMPLES + "test_results_in_tf_servings_layout", "context")),
    "examples are needed": Held(
        case(JSON_BOTH, "no examples-classify"),
        case(JSON_BOTH, "no examples-regress"),
        case(JSON_BOTH, "examples object-classify"),
        case(JSON_BOTH, "empty examples-classify"),
        case(JSON_BOTH, "example list-classify"),
        case(JSON_BOTH, "context list-classify"),
    ),
    "features of one kind": Held(
        case(JSON_EXAMPLES + "test_results_in_tf_servings_layout", "features of every kind"),
        case(JSON_BOTH, "mixed numbers-classify"),
        case(JSON_BOTH, "uint64-classify"),
        case(JSON_BOTH, "null-classify"),
        case(JSON_BOTH, "list in list-classify"),
        case(JSON_BOTH, "object-classify"),
    ),
    "the model's spec is not consulted": Held(JSON_EXAMPLES + "test_errors"),
    "JSON before the servable": Held(JSON_EXAMPLES + "test_errors"),
    "an empty list": Inner(
        "what a feature without a kind does is the model's", "codec/test_rest_examples.py::test_features"
    ),
}

JSON_EXAMPLE_RESPONSES: Rows = {
    "results": Held(JSON_EXAMPLES + "test_results_in_tf_servings_layout"),
    "no results": Inner("empty input is refused before"),
}

READING: Rows = {
    "status": Held(REST + "test_status"),
    "metadata": Held(REST + "test_metadata", PREDICT + "test_metadata_shows_defaults_references_and_the_init_op"),
}

ERRORS: Rows = {
    "the body": Held(REST + "test_bodies_are_checked_in_order", REST + "test_reading_refuses"),
    "INVALID_ARGUMENT, NOT_FOUND": Held(REST + "test_bodies_are_checked_in_order"),
    "UNIMPLEMENTED": Held(REST + "test_dtypes_without_a_json_form"),
    "DEADLINE_EXCEEDED": Held(TRANSPORT + "test_the_rest_deadline"),
    "all other codes": Inner("no request of a test makes each of them", "conformance/test_http_codes.py"),
}

TRANSITIONS: Rows = {
    vector: Inner("the order of loads and unloads follows no request", case(TRANSITION, vector_id))
    for vector, vector_id in {
        "load the highest new one": "1U 2E 3R* 4N* 5N*-action0",
        "unload what is not aspired": "3R 4R* 5N*-action1",
        "nothing aspired": "2R 3E-action2",
        "wait for a load": "1R* 2E* 3L*-None",
        "wait for the only one": "1R 2L*-None",
        "keep the old one over an error": "1R 2E*-None",
        "one aspired is ready": "1R 2L* 3R*-action6",
        "one aspired is ready beside an error": "1R 2E* 3R*-action7",
        "two old ones": "1R 2R 3E* 4L*-action8",
    }.items()
}

SCENARIOS: Rows = {
    "a version appears": Held(LIFECYCLE + "test_a_new_version_replaces_the_old_one"),
    "it fails": Held(LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes"),
    "then a good one": Held(LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes"),
    "the newest directory goes": Held(LIFECYCLE + "test_deleting_the_newest_version_brings_back_the_one_before"),
    "all directories go": Held(
        CONFIGURATION + "test_an_emptied_base_path_unloads_on_demand",
        LIFECYCLE + "test_an_emptied_base_path_takes_nothing_away",
    ),
    "the base path goes": Held(LIFECYCLE + "test_a_removed_base_path_takes_nothing_away"),
    "a model leaves": Held(RELOAD + "test_models_come_and_go"),
    "a model returns": Held(RELOAD + "test_models_come_and_go"),
    "the latest two": Held(LIFECYCLE + "test_two_versions_are_kept"),
    "another policy": Held(
        LIFECYCLE + "test_another_policy_takes_effect", RELOAD + "test_policies_change_without_a_wait"
    ),
}

CONFIGURATIONS: Rows = {
    "from a list to nothing": Held(CONFIGURATION + "test_a_polled_file_that_lists_no_models_is_refused"),
    "nothing at first": Held(CONFIGURATION + "test_a_file_of_comments_starts_a_server_of_nothing"),
    "a model twice": Held(case(A_RELOAD, "a model twice"), START + "test_faults"),
    "a relative base path": Held(case(A_RELOAD, "a relative base path"), case(A_RELOAD, "no base path")),
    "another platform": Held(case(A_RELOAD, "another platform")),
    "a failed reload is the configuration": Inner(
        "decided otherwise: a failed reload leaves everything as before, which a test holds",
        RELOAD + "test_a_model_that_does_not_load_is_tried_again_each_time",
    ),
    "a label that cannot be assigned": Held(
        case(A_RELOAD, "a version that does not serve"),
        case(A_RELOAD, "a label of a new model"),
        RELOAD + "test_labels",
    ),
    "type and platform": Held(case(A_RELOAD, "type and platform")),
    "neither type nor platform": Held(case(A_RELOAD, "neither type nor platform")),
    "another type": Held(case(A_RELOAD, "another type")),
    "an unknown platform": Held(case(A_RELOAD, "an unknown platform"), COMMAND + "test_failures_go_to_stdout_with_255"),
    "an error at the start": Held(DROP_IN + "test_a_model_that_ends_in_error_ends_the_start"),
    "an error of a reload": Held(
        RELOAD + "test_a_model_that_does_not_load_is_tried_again_each_time",
        RELOAD + "test_a_missing_base_path_is_told_at_once_and_changes_nothing",
    ),
    "logging_config": Held(
        case(A_RELOAD, "an unknown log collector"), MONITORING + "test_requests_are_logged_as_they_travelled"
    ),
    "the polled file": Held(
        RELOAD + "test_the_polled_file",
        "acceptance/test_bad_input.py::test_a_typo_in_a_polled_config_file_is_said_once",
        CONFIGURATION + "test_a_file_that_is_not_polled_is_read_once",
    ),
}

JSON_VECTORS: Rows = {
    "57 rows of INT32": Held(case(TENSORS, "rows")),
    "87 an ignored key of 500,000 lists": Held(case(TENSORS, "unknown keys"), REST + "test_a_deep_signature_name"),
    "104 signature_name of 500,000 lists": Held(REST + "test_a_deep_signature_name"),
    "121 FLOAT": Held(case(TENSORS, "floats")),
    "149 DOUBLE": Held(case(TENSORS, "doubles")),
    "183 precision": Held(case(TENSORS, "precision may be lost")),
    "224 overflow": Held(case(TENSORS, "overflow of floats")),
    "261 underflow": Held(case(TENSORS, "underflow of floats")),
    "298 signature_name": Held("acceptance/test_rest_surface.py::test_predict"),
    "326 a buffer without its NUL": Inner("HTTP bodies have their length"),
    "357 base64": Held(case(TENSORS, "base64 scalars")),
    "382 base64 in lists": Held(case(TENSORS, "base64 in lists")),
    "408 base64 in an object": Held(case(TENSORS, "base64 in lists"), "codec/test_rest_request.py::test_tensors"),
    "439 four dtypes, NaN and Infinity": Held(REST + "test_four_dtypes_in_rows"),
    "529 columns": Held(case(TENSORS, "columns"), case(TENSORS, "a column")),
    "589 three columns, one base64": Held(case(TENSORS, "a base64 column"), case(TENSORS, "columns of objects")),
    "642 refused rows": Held(
        REST + "test_bodies_are_checked_in_order",
        case(REST_REFUSES, "both keys"),
        case(REST_REFUSES, "sizes"),
        case(REST_REFUSES, "shapes"),
        case(REST_REFUSES, "text for a number"),
    ),
    "705 refused rows of objects": Held(
        case(REST_REFUSES, "ranks"),
        case(REST_REFUSES, "list among objects"),
        case(REST_REFUSES, "object among lists"),
    ),
}

RESPONSE_VECTORS: Rows = {
    "832 871 integers": Held(case(TENSORS, "rows"), "codec/test_rest_response.py::test_values"),
    "897 _bytes": Held(case(TENSORS, "rows of objects"), "codec/test_rest_response.py::test_values"),
    "924 floats as texts": Held(case(TENSORS, "number text"), "codec/test_rest_response.py::test_float_tokens"),
    "951 NaN and Infinity as texts": Held(case(TENSORS, "NaN and Infinity")),
    "976 what cannot be written": Held(
        REST + "test_dtypes_without_a_json_form", "codec/test_rest_response.py::test_types_that_cannot_be_written"
    ),
    "1011 objects": Held(case(TENSORS, "rows of objects"), case(TENSORS, "columns of objects")),
    "1117 1198 batches that differ": Held(case(REST_REFUSES, "uneven outputs")),
    "1153 1170 no rows": Held(case(TENSORS, "no rows"), "codec/test_rest_response.py::test_layout"),
}

EXAMPLE_VECTORS: Rows = {
    "1242 features": Held(JSON_EXAMPLES + "test_results_in_tf_servings_layout"),
    "1312 context and every kind": Held(
        case(JSON_EXAMPLES + "test_results_in_tf_servings_layout", "context"),
        "codec/test_rest_examples.py::test_context_and_every_kind",
    ),
    "1445 refused": Held(JSON_BOTH),
    "1534 classifications": Held(case(JSON_EXAMPLES + "test_results_in_tf_servings_layout", "classify")),
    "1559 1573 regressions": Held(
        case(JSON_EXAMPLES + "test_results_in_tf_servings_layout", "regress"),
        case(JSON_EXAMPLES + "test_results_in_tf_servings_layout", "NaN and Infinity"),
    ),
    "1590 no results": Inner("empty input is refused before"),
    "1601 errors": Held(REST + "test_bodies_are_checked_in_order", "codec/test_rest_response.py::test_error"),
}

HANDLER_VECTORS: Rows = {
    "173 which paths are the API's": Held(REST + "test_paths_outside_the_api"),
    "179 malformed URLs": Held(
        REST + "test_malformed_urls", REST + "test_reading_refuses", REST + "test_version_overflow"
    ),
    "260 unknown models": Held(REST + "test_reading_refuses", REST + "test_bodies_are_checked_in_order"),
    "283 bad bodies": Held(REST + "test_bodies_are_checked_in_order"),
    "330 predict": Held(REST + "test_predict_urls", "acceptance/test_rest_surface.py::test_predict"),
    "387 regress": Held(REST + "test_other_actions"),
    "423 classify": Held(REST + "test_other_actions"),
    "448 status": Held(REST + "test_status"),
    "515 metadata": Held(REST + "test_metadata"),
    "percent-decoding": Held(
        REST + "test_predict_urls", REST + "test_status", "tfserving/test_rest_urls.py::test_parses"
    ),
}

PREDICT_VECTORS: Rows = {
    "189 210 no inputs": Held(case(REFUSES, "too few inputs")),
    "223 unknown inputs": Held(case(REFUSES, "too many inputs")),
    "254 bool for float": Held(case(PREDICT + "test_predict_refuses", "the second of two arguments")),
    "274 output_filter": Held(case(REFUSES, "unknown output"), case(REFUSES, "repeated output")),
    "309 string for float": Held(case(REFUSES, "string for a number")),
    "349 a scalar without a shape": Held(case(TRANSPORT + "test_encodings", "grpcio-a missing shape is a scalar's")),
    "377 403 Predict on regress and classify": Held(
        PREDICT + "test_predict_feeds_examples_as_strings", "acceptance/test_rest_surface.py::test_predict"
    ),
    "436 the counter": Held(GRPC + "test_signatures_without_inputs_share_their_state"),
    "561 method names": Held(EXAMPLES + "test_method_names_are_checked_on_demand"),
    "unknown model": Held(case(REFUSES, "unknown model")),
}

INFERENCE_VECTORS: Rows = {
    "classifier 345 order of classes": Held(EXAMPLES + "test_classify"),
    "classifier 398 454 context": Held(
        case(EXAMPLES + "test_classify", "context for every example"),
        case(EXAMPLES + "test_classify", "the example wins over the context"),
    ),
    "classifier 512 560 one output": Held(
        case(EXAMPLES + "test_classify", "classes alone"), case(EXAMPLES + "test_classify", "scores alone")
    ),
    "classifier 609 a score of zero": Held(
        case(EXAMPLES + "test_classify", "labels and scores, in the order of the columns")
    ),
    "classifier 643 698 named signatures": Held(EXAMPLES + "test_classify", STRUCTURES),
    "classifier 721 ranks": Held(STRUCTURES),
    "classifier 745 a signature without tensors": Held(case(BOTH, "no input-classify")),
    "classifier 769 786 803 empty input": Held(EXAMPLES + "test_empty_input"),
    "classifier 822 errors of the session": Held(EXAMPLES + "test_a_failing_run_fails_every_call_with_its_text"),
    "classifier 843 899 batches": Held(STRUCTURES),
    "classifier 870 926 dtypes": Held(STRUCTURES),
    "classifier 955 widths": Held(STRUCTURES),
    "classifier 987 method names": Held(EXAMPLES + "test_method_names_are_checked_on_demand"),
    "regressor 297-563": Held(EXAMPLES + "test_regress", STRUCTURES, EXAMPLES + "test_empty_input"),
    "multi_inference 156 no input": Held(EXAMPLES + "test_empty_input"),
    "multi_inference 180 unknown signature": Held(case(TASKS, "unknown signature")),
    "multi_inference 207 two models": Held(case(TASKS, "two models")),
    "multi_inference 241 a signature twice": Held(case(TASKS, "a signature twice")),
    "multi_inference 268 predict": Held(case(TASKS, "predict")),
    "multi_inference 293 323 364 results": Held(EXAMPLES + "test_multi_inference_in_the_order_of_the_tasks"),
    "services: no spec, no name, unknown model": Held(
        case(BOTH, "no spec-classify"), case(BOTH, "no name-regress"), case(BOTH, "unknown model-classify")
    ),
    "services: unknown signature": Held(case(BOTH, "unknown signature-regress")),
    "services: other features are ignored": Held(case(EXAMPLES + "test_regress", "features that nobody asks for")),
    "metadata 123 fields": Held(GRPC + "test_metadata_refuses"),
    "metadata 141 resolution": Held(GRPC + "test_metadata_refuses", PREDICT + "test_metadata_refuses"),
    "metadata 168 valid": Held(GRPC + "test_metadata_shows_the_whole_signature_map"),
    "status 94 105 121 137 163": Held(GRPC + "test_status"),
    "util 80-200 Input": Held(EXAMPLES + "test_empty_input", "codec/test_examples.py"),
    "util 240-280 ModelSpec": Held(GRPC + "test_a_version_is_chosen"),
}

SERVER_VECTORS: Rows = {
    "core 81 a start waits": Held(DROP_IN + "test_a_start_with_every_address"),
    "core 115 from nothing to a model": Held(CONFIGURATION + "test_a_file_of_comments_starts_a_server_of_nothing"),
    "core 132 to an empty list": Held(RELOAD + "test_models_come_and_go"),
    "core 162 a model that was there before": Held(RELOAD + "test_models_come_and_go"),
    "core 189 another base path": Held(CONFIGURATION + "test_another_base_path_brings_its_versions"),
    "core 259-316 absolute paths": Held(case(A_RELOAD, "a relative base path"), case(A_RELOAD, "no base path")),
    "core 259-316 a root directory": Inner("tensorflow_model_server has no flag for one"),
    "core 326 a model that fails": Held(
        DROP_IN + "test_a_model_that_ends_in_error_ends_the_start",
        RELOAD + "test_a_model_that_does_not_load_is_tried_again_each_time",
    ),
    "core 358 372 list and custom": Held(
        CONFIGURATION + "test_a_polled_file_that_lists_no_models_is_refused", case(A_RELOAD, "a custom configuration")
    ),
    "core 387 type and platform": Held(case(A_RELOAD, "type and platform")),
    "core 397 type alone": Inner(
        "both ways give one configuration",
        "lifecycle/test_configuration.py::test_a_policy_and_both_ways_to_name_the_platform",
    ),
    "core 414 422 names twice, platforms": Held(case(A_RELOAD, "a model twice"), case(A_RELOAD, "an unknown platform")),
    "core 596 another platform": Held(case(A_RELOAD, "another platform")),
    "core 718 labels": Held(CONFIGURATION + "test_labels_are_replaced_and_outlive_their_version"),
    "core 805 a version that is not there": Held(case(A_RELOAD, "a version that does not serve")),
    "core 830 853 labels of unavailable versions": Held(
        CONFIGURATION + "test_new_labels_may_point_anywhere_with_the_flag"
    ),
    "core 885 915 forced and forbidden labels": Inner("tensorflow_model_server has no flag for them"),
    "source 74 nothing at the start": Held(
        RELOAD + "test_no_versions_at_start", DROP_IN + "test_a_missing_base_path_holds_nothing_up"
    ),
    "source 123 158 188 versions appear": Held(
        LIFECYCLE + "test_a_new_version_replaces_the_old_one", LIFECYCLE + "test_odd_version_directories"
    ),
    "source 229 the latest three": Held(LIFECYCLE + "test_odd_version_directories"),
    "source 274 320 364 specific versions": Held(
        RELOAD + "test_policies_change_without_a_wait", "model_repo_sync/test_policy.py::test_what_a_policy_picks"
    ),
    "source 400 434 no policy": Held(
        LIFECYCLE + "test_a_new_version_replaces_the_old_one",
        "model_repo_sync/test_policy.py::test_policies_from_configuration_and_back",
    ),
    "source 472 one of two is empty": Held("acceptance/test_bad_input.py::test_everything_else_serves"),
    "source 527 a servable leaves": Held(RELOAD + "test_models_come_and_go"),
    "source 592 another policy": Held(RELOAD + "test_policies_change_without_a_wait"),
    "source 667 another period": Inner("no request changes it"),
    "source 681 789 names of directories": Held(
        LIFECYCLE + "test_odd_version_directories",
        case("acceptance/test_bad_input.py::test_a_bad_source_is_named_once", "twice"),
    ),
    "source 717 828 a directory goes": Held(
        LIFECYCLE + "test_deleting_the_newest_version_brings_back_the_one_before",
        CONFIGURATION + "test_an_emptied_base_path_unloads_on_demand",
    ),
    "source 877 one look": Held(CONFIGURATION + "test_one_look_only"),
    "manager 186-205 unknown names": Held(case(REFUSES, "unknown model"), case(REFUSES, "unknown version")),
    "manager 238 version 0": Held(LIFECYCLE + "test_odd_version_directories"),
    "manager 850 a version with an error": Inner(
        "a source that knows of an error before the load is the one of a directory that vanished",
        "lifecycle/test_model.py::test_a_directory_that_vanished_before_its_load_never_loads",
    ),
    "manager 865 a load error": Held("acceptance/test_bad_input.py::test_a_saved_model_that_cannot_be_served_says_why"),
    "manager 894 life cycle": Held(
        LIFECYCLE + "test_a_new_version_replaces_the_old_one", "lifecycle/test_model.py::test_life_cycle"
    ),
    "manager 998 1027 retries": Held(
        LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes",
        "lifecycle/test_loader.py::test_tries",
    ),
    "manager 1059 a new version fails": Held(
        LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes"
    ),
}

LOADING_VECTORS: Rows = {
    "warmup 79 every kind, again and again": Held(
        WARMUP + "test_every_request_runs_before_the_version_is_available",
        "lifecycle/test_warmup.py::test_every_kind_of_request_is_replayed",
    ),
    "warmup 119 144 kinds that are refused": Held(
        WARMUP + "test_a_version_whose_warmup_fails_ends_in_its_error",
        "lifecycle/test_warmup.py::test_records_that_cannot_be_used",
    ),
    "warmup 149 165 no file, an empty file": Held(
        DROP_IN + "test_a_start_with_every_address",
        "lifecycle/test_warmup.py::test_without_a_file_there_is_nothing_to_do",
        "lifecycle/test_warmup.py::test_an_empty_file_is_fine",
    ),
    "warmup 186 215 241 281 records that fail": Held(
        WARMUP + "test_a_version_whose_warmup_fails_ends_in_its_error",
        "lifecycle/test_warmup.py::test_records_that_cannot_be_used",
        "lifecycle/test_warmup.py::test_the_first_request_that_fails_ends_it",
    ),
    "batching 291 requests share a run": Held(
        BATCHING + "test_64_clients_share_at_most_8_runs",
        "runner/test_batching.py::test_requests_share_a_run_and_each_gets_its_own_rows",
    ),
    "batching 318 variable lengths": Held(BACKEND + "test_outputs_are_not_cropped_after_padding_to_a_shape"),
    "batching 347 large requests": Held(
        BACKEND + "test_a_large_request_runs_in_parts", "runner/test_batch_queue.py::test_what_is_refused"
    ),
    "batching 626 692 shapes": Held(BACKEND + "test_requests_that_cannot_be_batched"),
    "batching 726 767 allowed sizes": Held(
        BACKEND + "test_every_dtype_in_a_padded_batch",
        "runner/test_batching_parameters.py::test_batches_are_padded_to_the_first_allowed_size_that_holds_them",
    ),
    "batching 819 832 wrong sizes": Held(BATCHING + "test_wrong_allowed_sizes_fail_each_load"),
    "batching 966 deadlines": Held(BACKEND + "test_a_deadline_that_passes_in_the_queue"),
    "exporter 30 62 93 111 128": Held(
        MONITORING + "test_the_page_is_what_prometheus_reads",
        "telemetry/test_monitoring.py::test_counter",
        "telemetry/test_monitoring.py::test_histogram",
        "telemetry/test_monitoring.py::test_names_and_escapes",
    ),
    "evhttp 78 unknown paths": Held(REST + "test_paths_outside_the_api"),
    "evhttp 152 queries": Held(REST + "test_malformed_urls", REST + "test_reading_refuses"),
    "evhttp 264 336 373 gzip": Held(REST + "test_gzip", REST + "test_bodies_that_cannot_be_inflated_read_as_empty"),
}

EASILY_MISSED: Rows = {
    "1 no port before the models": Held(DROP_IN + "test_ports_stay_closed_while_a_model_is_tried_again"),
    "2 a missing base path": Held(
        DROP_IN + "test_a_missing_base_path_holds_nothing_up",
        "acceptance/test_bad_input.py::test_a_bad_source_is_named_once",
    ),
    "3 a failing model ends the start": Held(
        DROP_IN + "test_a_model_that_ends_in_error_ends_the_start",
        DROP_IN + "test_ports_stay_closed_while_a_model_is_tried_again",
    ),
    "4 a failed version is not tried again": Held(
        LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes"
    ),
    "5 ended versions stay listed": Held(LIFECYCLE + "test_a_broken_version_leaves_the_old_one_until_a_good_one_comes"),
    "6 status ignores labels": Held(GRPC + "test_status", REST + "test_status", REST + "test_metadata"),
    "7 unknown labels and unknown versions": Held(case(REFUSES, "label of no model"), case(REFUSES, "unknown version")),
    "8 an unknown signature has many answers": Held(
        case(REFUSES, "unknown signature"),
        case(BOTH, "unknown signature-classify"),
        case(TASKS, "unknown signature"),
        REST + "test_bodies_are_checked_in_order",
    ),
    "9 shapes and dtypes": Held(GRPC + "test_any_shape_is_fed", case(REFUSES, "wrong dtype")),
    "10 typed fields": Held(GRPC + "test_a_version_is_chosen"),
    "11 Predict on classify and regress": Held(PREDICT + "test_predict_feeds_examples_as_strings"),
    "12 the response's ModelSpec": Held(
        GRPC + "test_a_version_is_chosen", GRPC + "test_metadata_shows_the_whole_signature_map"
    ),
    "13 metadata is whole": Held(PREDICT + "test_metadata_shows_defaults_references_and_the_init_op"),
    "14 defaults": Held(
        PREDICT + "test_missing_inputs_come_from_the_signature", PREDICT + "test_rest_does_not_fill_in_defaults"
    ),
    "15 MultiInference without tasks, with predict": Held(case(TASKS, "no task"), case(TASKS, "predict")),
    "16 flags": Inner(
        "a start that ends has no server that could be asked",
        COMMAND + "test_usage_and_255",
        COMMAND + "test_what_is_left_over_is_named_and_the_start_goes_on",
    ),
    "17 labels at the start": Held(
        CONFIGURATION + "test_labels_at_the_start_need_the_flag", case(A_RELOAD, "a label of a new model")
    ),
    "18 reloads": Held(
        RELOAD + "test_models_come_and_go", RELOAD + "test_a_model_that_does_not_load_is_tried_again_each_time"
    ),
    "19 labels are replaced": Held(CONFIGURATION + "test_labels_are_replaced_and_outlive_their_version"),
    "20 logging_config": Held(MONITORING + "test_requests_are_logged_as_they_travelled"),
    "21 the file wins": Held(DROP_IN + "test_a_missing_base_path_holds_nothing_up"),
    "22 URLs": Held(REST + "test_malformed_urls", REST + "test_version_overflow", REST + "test_paths_outside_the_api"),
    "23 JSON": Held(
        case(TENSORS, "NaN and Infinity"), case(TENSORS, "trailing garbage"), case(TENSORS, "the first of equal keys")
    ),
    "24 scalars": Held(case(REST_REFUSES, "a scalar output in rows"), case(TENSORS, "a scalar output in columns")),
    "25 results, _bytes, codes": Held(
        JSON_EXAMPLES + "test_results_in_tf_servings_layout",
        case(TENSORS, "rows of objects"),
        REST + "test_dtypes_without_a_json_form",
    ),
    "26 gzip and OPTIONS": Held(REST + "test_gzip", REST + "test_preflight"),
    "27 error texts are cut": Held(TRANSPORT + "test_long_and_odd_error_texts"),
    "28 request_count": Held(
        MONITORING + "test_rest_is_counted", MONITORING + "test_predict_is_counted", METRICS + "test_grpc"
    ),
    "29 health": Held(MONITORING + "test_health", MONITORING + "test_health_of_an_unknown_name"),
    "30 batching": Held(
        BACKEND + "test_requests_that_cannot_be_batched", BATCHING + "test_wrong_allowed_sizes_fail_each_load"
    ),
    "31 the socket is stolen": Held(DROP_IN + "test_a_later_server_steals_the_socket"),
    "32 no clean-up is needed": Held(
        "acceptance/test_side_by_side.py::test_all_become_ready_answer_and_leave_nothing_when_killed",
        "acceptance/test_process.py::test_a_second_signal_ends_at_once",
    ),
}

CHECKLISTS: Mapping[str, Rows] = {
    "3.2 resolution": RESOLUTION,
    "3.3 Predict": PREDICTING,
    "3.4 method names": METHOD_NAMES,
    "3.5 Classify": CLASSIFYING,
    "3.6 Regress": REGRESSING,
    "3.7 MultiInference": MULTI_INFERENCE,
    "3.8 GetModelMetadata": METADATA,
    "3.9 GetModelStatus, health": STATUS,
    "3.10 HandleReloadConfigRequest": RELOADING,
    "4.3 JSON requests": JSON_REQUESTS,
    "4.4 JSON responses": JSON_RESPONSES,
    "4.5 JSON of Examples": JSON_EXAMPLE_REQUESTS,
    "4.6 JSON of results": JSON_EXAMPLE_RESPONSES,
    "4.7 status and metadata": READING,
    "4.8 errors": ERRORS,
    "5.3 transitions": TRANSITIONS,
    "5.5 what stays served": SCENARIOS,
    "5.6 configurations": CONFIGURATIONS,
    "7.4 JSON requests": JSON_VECTORS,
    "7.5 JSON responses": RESPONSE_VECTORS,
    "7.6 JSON of Examples": EXAMPLE_VECTORS,
    "7.7 REST handler": HANDLER_VECTORS,
    "7.8 Predict": PREDICT_VECTORS,
    "7.9 inference, metadata, status": INFERENCE_VECTORS,
    "7.10 server, sources, versions": SERVER_VECTORS,
    "7.11 warmup, batching, metrics, HTTP": LOADING_VECTORS,
    "9.1 easily missed": EASILY_MISSED,
}
