"""What tensorflow_model_server refuses before it loads anything, row by row, without a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.errors import BridgeError
from bridge.tfserving import flag_table
from bridge.tfserving.flags import parse
from bridge.tfserving.start_check import check

ONE = "--model_base_path={tmp}/model"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "models").write_text(
        'model_config_list { config { name: "a" base_path: "/a" model_platform: "none" } }'
    )
    (tmp_path / "bad").write_text("improperly formatted file\n")
    (tmp_path / "labels").write_text(
        'model_config_list { config { name: "a" base_path: "/a" model_platform: "tensorflow" '
        'version_labels { key: "stable" value: 1 } } }'
    )
    (tmp_path / "relative").write_text('model_config_list { config { name: "a" base_path: "models/a" } }')
    (tmp_path / "twice").write_text("model_config_list { " + 'config { name: "a" base_path: "/a" } ' * 2 + "}")
    (tmp_path / "custom").write_text(
        "custom_model_config { [type.googleapis.com/tensorflow.serving.BatchingParameters] { } }"
    )
    (tmp_path / "no_platform").write_text("# nothing\n")


INVALID, MISSING = "INVALID_ARGUMENT: ", "NOT_FOUND: "
FAILURES = [
    (
        ["--port=0", ONE],
        INVALID + "At least one of server_options.grpc_port or server_options.grpc_socket_path must be set.",
    ),
    (
        [ONE, "--use_alts_credentials", "--ssl_config_file={tmp}/bad"],
        INVALID + "Either use_alts_credentials must be false or ssl_config_file must be empty.",
    ),
    ([], INVALID + "Both server_options.model_base_path and server_options.model_config_file are empty!"),
    (["--model_config_file={tmp}/none"], MISSING + "{tmp}/none; No such file or directory"),
    (["--model_config_file={tmp}/bad"], INVALID + "Invalid protobuf file: '{tmp}/bad'"),
    # Both forms at once, as TF Serving's image gives them: the file wins, so its fault is the one that is told.
    (
        ["--model_config_file={tmp}/models", "--model_name=b", "--model_base_path=relative"],
        INVALID + "Model a requests unsupported platform none",
    ),
    (
        ["--model_config_file={tmp}/relative"],
        INVALID + "Expected model a to have an absolute path or URI; got base_path()=models/a",
    ),
    (
        ["--model_base_path=models"],
        INVALID + "Expected model default to have an absolute path or URI; got base_path()=models",
    ),
    (["--model_config_file={tmp}/twice"], INVALID + "Illegal to list model a multiple times in config list"),
    (
        ["--model_config_file={tmp}/labels"],
        "FAILED_PRECONDITION: Request to assign label to version 1 of model a, "
        "which is not currently available for inference",
    ),
    (
        [ONE, "--batching_parameters_file={tmp}/bad"],
        INVALID
        + "server_options.batching_parameters_file is set without setting server_options.enable_batching to true.",
    ),
    (
        [ONE, "--enable_batching", "--batching_parameters_file={tmp}/bad"],
        INVALID + "Invalid protobuf file: '{tmp}/bad'",
    ),
    (
        [ONE, "--enable_batching", "--batching_parameters_file={tmp}/none"],
        MISSING + "{tmp}/none; No such file or directory",
    ),
    ([ONE, "--tensorflow_session_config_file={tmp}/bad"], INVALID + "Invalid protobuf file: '{tmp}/bad'"),
    ([ONE, "--platform_config_file={tmp}/bad"], INVALID + "Invalid protobuf file: '{tmp}/bad'"),
    (
        [ONE, "--platform_config_file={tmp}/no_platform"],
        INVALID + "Model default requests unsupported platform tensorflow",
    ),
    ([ONE, "--thread_pool_factory_config_file={tmp}/bad"], INVALID + "Invalid protobuf file: '{tmp}/bad'"),
    ([ONE, "--ssl_config_file={tmp}/bad"], INVALID + "Invalid protobuf file: '{tmp}/bad'"),
    ([ONE, "--ssl_config_file={tmp}/none"], MISSING + "{tmp}/none; No such file or directory"),
    ([ONE, "--rest_api_port=1", "--monitoring_config_file={tmp}/bad"], INVALID + "Invalid protobuf file: '{tmp}/bad'"),
    (
        ["--model_config_file={tmp}/custom"],
        INVALID
        + "ModelServer does not yet support custom model config other than "
        + "tensorflow.serving.FileSystemStoragePathSourceConfig; "
        + "got 'type.googleapis.com/tensorflow.serving.BatchingParameters'",
    ),
    (
        [ONE, *(f"--tensorflow_{kind}_parallelism=1" for kind in ("session", "intra_op", "inter_op"))],
        INVALID + "Either configure server_options.tensorflow_session_parallelism or "
        "(server_options.tensorflow_intra_op_parallelism, server_options.tensorflow_inter_op_parallelism) separately. "
        "You cannot configure all.",
    ),
]


def start(*words: str) -> None:
    given = parse(words, flag_table.FLAGS).values
    check(flag_table.settings(given), str(given.get("thread_pool_factory_config_file", "")))


@pytest.mark.parametrize(("flags", "error"), FAILURES)
def test_faults(tmp_path: Path, flags: list[str], error: str) -> None:
    with pytest.raises(BridgeError) as caught:
        start(*(flag.format(tmp=tmp_path) for flag in flags))
    assert f"{caught.value.code.name}: {caught.value.message}" == error.format(tmp=tmp_path)


@pytest.mark.parametrize(
    "flags",
    [
        [ONE],
        [ONE, "--port=0", "--grpc_socket_path=s"],
        [ONE, "--monitoring_config_file={tmp}/bad"],
        ["--model_config_file={tmp}/labels", "--allow_version_labels_for_unavailable_models"],
        ["--model_config_file={tmp}/no_platform"],
    ],
)
def test_what_is_no_fault(tmp_path: Path, flags: list[str]) -> None:
    start(*(flag.format(tmp=tmp_path) for flag in flags))


def test_faults_are_told_in_the_order_of_the_stock_binary(tmp_path: Path) -> None:
    """A command line with every fault; what is told is mended until none is left."""
    words = {
        "port": "--port=0",
        "alts": "--use_alts_credentials",
        "ssl": f"--ssl_config_file={tmp_path}/bad",
        "batching file": f"--batching_parameters_file={tmp_path}/bad",
        "session": f"--tensorflow_session_config_file={tmp_path}/bad",
        "threads": f"--thread_pool_factory_config_file={tmp_path}/bad",
    }
    mends = [
        ("grpc_port", ("port", "--port=1")),
        ("use_alts_credentials", ("alts", "--use_alts_credentials=false")),
        ("model_base_path", ("model", f"--model_config_file={tmp_path}/bad")),
        ("Invalid protobuf", ("model", f"--model_config_file={tmp_path}/twice")),
        ("batching_parameters_file", ("batching", "--enable_batching")),
        ("Invalid protobuf", ("batching file", "--batching_parameters_file=")),
        ("Invalid protobuf", ("session", "--tensorflow_session_config_file=")),
        ("multiple times", ("model", f"--model_config_file={tmp_path}/no_platform")),
        ("Invalid protobuf", ("threads", "--thread_pool_factory_config_file=")),
        ("Invalid protobuf", ("ssl", "--ssl_config_file=")),
    ]
    for told, (name, word) in mends:
        with pytest.raises(BridgeError, match=told):
            start(*words.values())
        words[name] = word
    start(*words.values())
