from __future__ import annotations

from pathlib import Path

import pytest

from model_repo_sync.config_files import ConfigFileError, read_model_config_file
from model_repo_sync.protos.tensorflow import error_codes_pb2


def test_a_file_in_every_spelling_that_text_format_allows(tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text(
        """
        # two models
        model_config_list: {
          config { name: "a", base_path: "/models/a"; model_platform: "tensorflow"
                   model_version_policy { specific { versions: [1, 2] } }
                   version_labels { key: "stable" value: 1 } },
          config: { name: 'b' base_path: '/models/b' model_platform: 'tensorflow' }
        }
        """
    )
    first, second = read_model_config_file(str(file)).model_config_list.config
    assert (first.name, second.name) == ("a", "b")
    assert list(first.model_version_policy.specific.versions) == [1, 2]
    assert dict(first.version_labels) == {"stable": 1}


def test_comments_alone_are_an_unset_configuration(tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text("# nothing yet\n")
    assert read_model_config_file(str(file)).WhichOneof("config") is None


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("improperly formatted file\n", "1:1: "),
        ("model_config_list {\n  config { nam: 'a' }\n}", "2:12: "),
        ("model_config_list { config { name: 'a' }", "1:"),
        ("model_config_list { config { name: 'a' name: 'b' } }", "1:"),
        ("model_config_list { config { model_version_policy { latest { num_versions: -1 } } } }", "1:"),
    ],
)
def test_a_typo_is_told_with_its_place(tmp_path: Path, text: str, detail: str) -> None:
    file = tmp_path / "models.config"
    file.write_text(text)
    with pytest.raises(ConfigFileError) as caught:
        read_model_config_file(str(file))
    assert caught.value.code == error_codes_pb2.INVALID_ARGUMENT
    assert caught.value.message == f"Invalid protobuf file: '{file}'"
    assert caught.value.detail.startswith(detail)
    assert str(caught.value) == f"{caught.value.message}: {caught.value.detail}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    cases = [
        ("missing", error_codes_pb2.NOT_FOUND, "No such file or directory"),
        (".", error_codes_pb2.FAILED_PRECONDITION, "Is a directory"),
        ("empty", error_codes_pb2.INVALID_ARGUMENT, "Invalid argument"),
    ]
    for name, code, reason in cases:
        path = f"{tmp_path}/{name}"
        with pytest.raises(ConfigFileError) as caught:
            read_model_config_file(path)
        assert (caught.value.code, str(caught.value)) == (code, f"{path}; {reason}")
