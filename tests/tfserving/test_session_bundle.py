from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.errors import BridgeError, Code
from bridge.settings import Settings
from bridge.tfserving.session_bundle import SessionBundle, session_bundle
from model_repo_sync.protos.tensorflow import rewriter_config_pb2
from model_repo_sync.protos.text import to_text

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file; its path."""

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def batching(bundle: SessionBundle) -> str:
    return to_text(bundle.batching) if bundle.batching is not None else "off"


def test_defaults() -> None:
    bundle = session_bundle(Settings())
    assert bundle.batching is None
    assert not bundle.per_model_batching
    assert bundle.tags == ("serve",)
    assert (bundle.warmup, bundle.warmup_iterations) == (True, 1)
    assert bundle.session_config.SerializeToString() == b""
    assert bundle.platforms == {"tensorflow"}


def test_batching_without_a_file_has_the_servers_thread_pool() -> None:
    bundle = session_bundle(Settings(enable_batching=True))
    assert batching(bundle) == 'thread_pool_name {\n  value: "model_server_batch_threads"\n}\n'


def test_a_batching_file_replaces_the_default(write: Write) -> None:
    path = write("batching", "max_batch_size { value: 128 } allowed_batch_sizes: 64 allowed_batch_sizes: 128")
    bundle = session_bundle(Settings(enable_batching=True, batching_parameters_file=path))
    assert batching(bundle) == "max_batch_size {\n  value: 128\n}\nallowed_batch_sizes: 64\nallowed_batch_sizes: 128\n"


def test_per_model_batching_needs_batching() -> None:
    assert not session_bundle(Settings(enable_per_model_batching_parameters=True)).per_model_batching
    both = Settings(enable_batching=True, enable_per_model_batching_parameters=True)
    assert session_bundle(both).per_model_batching


@pytest.mark.parametrize(
    ("tags", "expected"),
    [("serve", ("serve",)), ("", ("serve",)), ("serve,gpu", ("serve", "gpu")), (",a,", ("a",))],
)
def test_tags(tags: str, expected: tuple[str, ...]) -> None:
    assert session_bundle(Settings(saved_model_tags=tags)).tags == expected


@pytest.mark.parametrize(
    ("flags", "intra", "inter"),
    [
        ({}, 3, 0),
        ({"tensorflow_session_parallelism": 2}, 2, 2),
        ({"tensorflow_intra_op_parallelism": 4}, 4, 0),
        ({"tensorflow_intra_op_parallelism": 4, "tensorflow_inter_op_parallelism": 5}, 4, 5),
        ({"tensorflow_session_parallelism": 2, "tensorflow_intra_op_parallelism": 4}, 2, 2),
    ],
)
def test_thread_counts_of_flags_go_before_the_file(write: Write, flags: dict[str, int], intra: int, inter: int) -> None:
    path = write("session", "intra_op_parallelism_threads: 3 graph_options { place_pruned_graph: true }")
    config = session_bundle(Settings(tensorflow_session_config_file=path, **flags)).session_config  # type: ignore[arg-type]
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (intra, inter)
    assert config.graph_options.place_pruned_graph


def test_gpu_memory_fraction() -> None:
    config = session_bundle(Settings(per_process_gpu_memory_fraction=0.25)).session_config
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.25


def test_mixed_precision() -> None:
    options = session_bundle(Settings(mixed_precision="bfloat16")).session_config.graph_options.rewrite_options
    assert options.auto_mixed_precision_onednn_bfloat16 == rewriter_config_pb2.RewriterConfig.ON
    unknown = session_bundle(Settings(mixed_precision="float8"))
    assert unknown.session_config.SerializeToString() == b""
    assert unknown.warnings == ("Mixed precision float8 is not known; only bfloat16 is.",)


PLATFORM = """
platform_configs {
  key: "tensorflow"
  value { source_adapter_config {
    [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {
      legacy_config {
        session_config { intra_op_parallelism_threads: 7 }
        batching_parameters { max_batch_size { value: 4 } }
        saved_model_tags: "serve" saved_model_tags: "tpu"
        enable_model_warmup: true
        model_warmup_options { num_request_iterations { value: 3 } }
      }
    }
  } }
}
"""


def test_a_platform_configuration_replaces_the_flags(write: Write) -> None:
    flags = Settings(
        platform_config_file=write("platforms", PLATFORM), tensorflow_session_parallelism=1, saved_model_tags="other"
    )
    bundle = session_bundle(flags)
    assert to_text(bundle.session_config) == "intra_op_parallelism_threads: 7\n"
    assert batching(bundle) == "max_batch_size {\n  value: 4\n}\n"
    assert bundle.tags == ("serve", "tpu")
    assert (bundle.warmup, bundle.warmup_iterations) == (True, 3)


def test_what_a_platform_configuration_leaves_unset_is_off(write: Write) -> None:
    text = PLATFORM[: PLATFORM.index("legacy_config")] + "} } } }"
    bundle = session_bundle(Settings(platform_config_file=write("platforms", text), enable_batching=True))
    assert (bundle.batching, bundle.warmup, bundle.tags) == (None, False, ("serve",))


def test_platforms_that_are_not_served(write: Write) -> None:
    path = write("platforms", 'platform_configs { key: "hashmap" value { } }')
    bundle = session_bundle(Settings(platform_config_file=path))
    assert bundle.platforms == frozenset()
    assert bundle.warnings == (f"Platform hashmap of {path} is not served; tensorflow is the only one.",)


TWO_WAYS = (
    "Either configure server_options.tensorflow_session_parallelism or "
    "(server_options.tensorflow_intra_op_parallelism, server_options.tensorflow_inter_op_parallelism) separately. "
    "You cannot configure all."
)
WITHOUT_BATCHING = (
    "server_options.batching_parameters_file is set without setting server_options.enable_batching to true."
)


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ({"batching_parameters_file": "/any"}, Code.INVALID_ARGUMENT, WITHOUT_BATCHING),
        (
            {"enable_batching": True, "batching_parameters_file": "{missing}"},
            Code.NOT_FOUND,
            "{missing}; No such file or directory",
        ),
        (
            {"enable_batching": True, "batching_parameters_file": "{bad}"},
            Code.INVALID_ARGUMENT,
            "Invalid protobuf file: '{bad}'",
        ),
        ({"tensorflow_session_config_file": "{bad}"}, Code.INVALID_ARGUMENT, "Invalid protobuf file: '{bad}'"),
        ({"platform_config_file": "{bad}"}, Code.INVALID_ARGUMENT, "Invalid protobuf file: '{bad}'"),
        (
            {
                "tensorflow_session_parallelism": 1,
                "tensorflow_intra_op_parallelism": 1,
                "tensorflow_inter_op_parallelism": 1,
            },
            Code.INVALID_ARGUMENT,
            TWO_WAYS,
        ),
    ],
)
def test_faults(write: Write, flags: dict[str, str | int | bool], code: Code, message: str) -> None:
    bad = write("bad", "max_batch_size: 3")
    paths = {"bad": bad, "missing": f"{bad}.missing"}
    flags = {name: value.format(**paths) if isinstance(value, str) else value for name, value in flags.items()}
    with pytest.raises(BridgeError) as caught:
        session_bundle(Settings(**flags))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.message) == (code, message.format(**paths))


def test_a_platform_without_its_source_adapter(write: Write) -> None:
    path = write("platforms", 'platform_configs { key: "tensorflow" value { } }')
    with pytest.raises(BridgeError, match="SavedModelBundleSourceAdapterConfig"):
        session_bundle(Settings(platform_config_file=path))
