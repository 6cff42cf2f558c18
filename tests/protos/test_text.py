from __future__ import annotations

import pytest
from google.protobuf import json_format

from model_repo_sync.protos import text
from model_repo_sync.protos.tensorflow import config_pb2
from model_repo_sync.protos.tensorflow_serving import (
    get_model_status_pb2,
    model_server_config_pb2,
    platform_config_pb2,
    session_bundle_config_pb2,
)

CONFIG = """
model_config_list {
  # A comment, and two spellings of a string.
  config {
    name: "half_plus_two" base_path: '/models/half' '_plus_two'
    model_platform: "tensorflow"
    model_version_policy { specific { versions: 1 versions: 2 } }
    version_labels { key: "stable" value: 1 }
  }
}
"""

PLATFORMS = """
platform_configs {
  key: "tensorflow"
  value {
    source_adapter_config {
      [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {
        legacy_config { saved_model_tags: "serve" session_config { gpu_options { allow_growth: true } } }
      }
    }
  }
}
"""


def test_model_configuration() -> None:
    config = text.from_text(CONFIG, model_server_config_pb2.ModelServerConfig)
    (model,) = config.model_config_list.config
    assert model.base_path == "/models/half_plus_two"
    assert list(model.model_version_policy.specific.versions) == [1, 2]
    assert dict(model.version_labels) == {"stable": 1}
    assert text.from_text(text.to_text(config), model_server_config_pb2.ModelServerConfig) == config


@pytest.mark.parametrize(
    ("content", "line", "column", "reason"),
    [
        ('model_config_list {\n  config { nam: "x" }\n}', 2, 12, 'no field named "nam"'),
        ('model_config_list {\n  config { name: "x"', 2, 18, 'Expected "}"'),
        ("model_config_list {\n  config { name: 1 }\n}", 2, 18, "Expected string"),
        ("model_config_list: 5", 1, 20, "Expected"),
        ("model_config_list {}\ncustom_model_config {}", 2, 1, "oneof"),
    ],
)
def test_errors_name_file_line_and_column(content: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(text.TextFormatError) as caught:
        text.from_text(content, model_server_config_pb2.ModelServerConfig, source="models.config")
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value) == f"models.config:{line}:{column}: {caught.value.reason}"


def test_error_without_a_place_names_the_file() -> None:
    content = "custom_model_config { [type.googleapis.com/no.Such] { } }"
    with pytest.raises(text.TextFormatError, match=r"^models.config: Type no.Such not found in descriptor pool$"):
        text.from_text(content, model_server_config_pb2.ModelServerConfig, source="models.config")


def test_any_is_expanded_from_the_private_pool() -> None:
    platforms = text.from_text(PLATFORMS, platform_config_pb2.PlatformConfigMap)
    assert "allow_growth: true" in text.to_text(platforms)
    adapter = text.to_dict(platforms)["platformConfigs"]["tensorflow"]["sourceAdapterConfig"]
    assert adapter["legacyConfig"] == {
        "savedModelTags": ["serve"],
        "sessionConfig": {"gpuOptions": {"allowGrowth": True}},
    }
    assert text.from_dict(text.to_dict(platforms), platform_config_pb2.PlatformConfigMap) == platforms


def test_batching_parameters() -> None:
    content = "max_batch_size { value: 32 } batch_timeout_micros { value: 0 } allowed_batch_sizes: [1, 8, 32]"
    parameters = text.from_text(content, session_bundle_config_pb2.BatchingParameters)
    assert parameters.max_batch_size.value == 32
    assert parameters.HasField("batch_timeout_micros")
    assert not parameters.HasField("num_batch_threads")
    assert list(parameters.allowed_batch_sizes) == [1, 8, 32]


def test_session_configuration_in_any_depth() -> None:
    content = """
    intra_op_parallelism_threads: 2
    graph_options { rewrite_options { meta_optimizer_iterations: ONE custom_optimizers { name: "x" } } }
    experimental { disable_thread_spinning: true coordination_config { service_type: "standalone" } }
    """
    config = text.from_text(content, config_pb2.ConfigProto)
    assert config.graph_options.rewrite_options.custom_optimizers[0].name == "x"
    assert config.experimental.coordination_config.service_type == "standalone"


def test_status_keeps_its_json_names() -> None:
    """TensorFlow Serving declares json_name for these fields, so REST prints them in snake case."""
    response = get_model_status_pb2.GetModelStatusResponse()
    status = response.model_version_status.add(version=1, state=get_model_status_pb2.ModelVersionStatus.AVAILABLE)
    status.status.error_message = "x"
    assert text.to_dict(response) == {
        "model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {"error_message": "x"}}]
    }


def test_dict_of_another_message_is_refused() -> None:
    with pytest.raises(json_format.ParseError, match="nothing"):
        text.from_dict({"nothing": 1}, model_server_config_pb2.ModelServerConfig)
