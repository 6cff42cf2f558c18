from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from model_repo_sync.protos.tensorflow import error_codes_pb2, meta_graph_pb2, saved_model_pb2
from model_repo_sync.protos.tensorflow_serving import get_model_metadata_pb2
from model_repo_sync.protos.text import to_text
from model_repo_sync.saved_model import SavedModelError, TensorSpec, read_saved_model
from model_repo_sync.saved_model_files import fingerprint, walk
from tests.model_repo_sync.builders import GraphBuilder, identity, saved_model, write

FLOAT, INT32, STRING, FLOAT_REF, RESOURCE, VARIANT = 1, 3, 7, 101, 20, 21


def test_a_signature_as_it_is_served(tmp_path: Path) -> None:
    builder = identity().op("VariableV2", {"ref": "dtype"}).node("v", "VariableV2", dtype=FLOAT)
    builder.signature("counter", {}, {"b": ("v", FLOAT_REF), "a": ("y:0", FLOAT)}, method="")
    builder.message.signature_def["counter"].outputs["a"].tensor_shape.unknown_rank = True
    builder.message.signature_def["serving_default"].defaults["x"].dtype = FLOAT
    model = read_saved_model(str(write(tmp_path / "m", builder)))
    assert (model.path, model.tags, model.tensorflow_version) == (f"{tmp_path}/m", ("serve",), "2.21.0")
    assert list(model.signatures) == ["counter", "serving_default"]
    counter, default = model.signatures.values()
    assert (counter.method_name, default.method_name) == ("", "tensorflow/serving/predict")
    assert counter.inputs == ()
    assert counter.outputs == (
        TensorSpec("a", "y:0", FLOAT, FLOAT, None),
        TensorSpec("b", "v:0", FLOAT, FLOAT_REF, (-1,)),
    )
    assert default.inputs == (TensorSpec("x", "x:0", FLOAT, FLOAT, (-1,)),)
    assert default.defaults == {"x": b"\x08\x01"}
    assert (counter.problem, default.problem, model.warnings) == ("", "", ())
    assert model.served() == (counter, default)


def test_the_signature_def_map_keeps_every_signature_verbatim(tmp_path: Path) -> None:
    builder = identity().signature("__saved_model_init_op", {}, {"__saved_model_init_op": ("NoOp", 0)}, method="")
    # Field 90 is not declared anywhere; a newer TensorFlow may well write one.
    builder.message.signature_def["serving_default"].MergeFromString(b"\xd2\x05\x02hi")
    model = read_saved_model(str(write(tmp_path / "m", builder)))
    assert list(model.signatures) == ["serving_default"]
    kept = get_model_metadata_pb2.SignatureDefMap.FromString(model.signature_def_map)
    assert dict(kept.signature_def) == dict(builder.message.signature_def)


def test_the_dtype_of_the_graph_counts(tmp_path: Path) -> None:
    builder = GraphBuilder().placeholder("x", STRING).node("y", "MyOp")
    builder.signature("s", {"x": ("x:0", FLOAT)}, {"y": ("y:0", INT32)})
    model = read_saved_model(str(write(tmp_path / "m", builder)))
    [signature] = model.served()
    assert (signature.inputs[0].dtype, signature.inputs[0].declared_dtype) == (STRING, FLOAT)
    assert signature.outputs[0].dtype == INT32
    assert model.warnings == (
        'Signature "s" declares input "x" as float, but "x:0" is string in the graph, which is what counts.',
    )


def sparse(builder: GraphBuilder) -> None:
    builder.message.signature_def["s"].inputs["x"].coo_sparse.values_tensor_name = "x:0"


def composite(builder: GraphBuilder) -> None:
    builder.message.signature_def["s"].inputs["x"].composite_tensor.components.add(name="x:0")


PROBLEMS: dict[str, tuple[Any, str]] = {
    "sparse": (sparse, 'input "x" is a sparse tensor'),
    "composite": (composite, 'input "x" is a composite tensor'),
    "no such op": (("z:0", FLOAT), 'input "x" names "z:0", whose op is not in the graph'),
    "no such output": (("x:3", FLOAT), 'input "x" names "x:3", whose op has only 1 outputs'),
    "no tensor": (("^x", FLOAT), 'input "x" names "^x", which is no tensor'),
    "resource": (("r:0", RESOURCE), 'input "x" has the dtype resource'),
    "variant": (("variant:0", VARIANT), 'input "x" has the dtype variant'),
    "four-bit float": (("f4:0", 33), 'input "x" has the dtype float4_e2m1fn'),
}


def problematic(case: str) -> GraphBuilder:
    builder = identity().placeholder("r", RESOURCE).placeholder("variant", VARIANT).placeholder("f4", 33)
    change = PROBLEMS[case][0]
    builder.signature("s", {"x": ("x:0", FLOAT) if callable(change) else change}, {"y": ("y:0", FLOAT)})
    if callable(change):
        change(builder)
    return builder


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_signature_that_cannot_be_served_says_why(tmp_path: Path, case: str) -> None:
    model = read_saved_model(str(write(tmp_path / "m", problematic(case))))
    assert model.signatures["s"].problem == f'Signature "s" cannot be served: {PROBLEMS[case][1]}.'
    assert [signature.name for signature in model.served()] == ["serving_default"]


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_saved_model_without_any_servable_signature_is_refused(tmp_path: Path, case: str) -> None:
    builder = problematic(case)
    del builder.message.signature_def["serving_default"]
    path = str(write(tmp_path / "m", builder))
    with pytest.raises(SavedModelError) as caught:
        read_saved_model(path)
    assert caught.value.code == error_codes_pb2.UNIMPLEMENTED
    assert caught.value.message == (
        f'No signature of {path} can be served: Signature "s" cannot be served: {PROBLEMS[case][1]}.'
    )


def test_several_faults_make_one_sentence(tmp_path: Path) -> None:
    builder = identity().signature("s", {"a": ("q", FLOAT), "b": ("^x", FLOAT)}, {"c": ("", FLOAT)})
    model = read_saved_model(str(write(tmp_path / "m", builder)))
    assert model.signatures["s"].problem == (
        'Signature "s" cannot be served: input "a" names "q:0", whose op is not in the graph; '
        'input "b" names "^x", which is no tensor; output "c" names "", which is no tensor.'
    )


def test_a_saved_model_without_signatures_loads_with_a_warning(tmp_path: Path) -> None:
    model = read_saved_model(str(write(tmp_path / "m", GraphBuilder().placeholder("x"))))
    assert model.warnings == ("The SavedModel has no signature, so no request to it can succeed.",)
    assert not model.stateful


def test_statefulness_is_that_of_the_served_signatures(tmp_path: Path) -> None:
    builder = identity().op("AssignAdd", {"output": "T"}, reference_input=True).node("add", "AssignAdd", T=FLOAT)
    assert not read_saved_model(str(write(tmp_path / "reader", builder))).stateful
    builder.signature("increment", {}, {"v": ("add:0", FLOAT_REF)})
    assert read_saved_model(str(write(tmp_path / "writer", builder))).stateful


def test_errors_are_those_of_tf_serving(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "legacy").mkdir()
    (tmp_path / "legacy" / "export.meta").touch()
    (write(tmp_path / "cut") / "saved_model.pb").write_bytes(saved_model()[:-1])
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "saved_model.pbtxt").write_text("meta_graphs {")
    write(tmp_path / "other", GraphBuilder(tags=("serve", "gpu")))
    expected = {
        "empty": (
            error_codes_pb2.NOT_FOUND,
            "Specified file path does not appear to contain a SavedModel bundle (should have a file called "
            f"`saved_model.pb`)\nSpecified file path: {tmp_path}/empty",
        ),
        "legacy": (error_codes_pb2.UNIMPLEMENTED, "Session Bundle is deprecated and removed."),
        "cut": (error_codes_pb2.DATA_LOSS, f"Can't parse {tmp_path}/cut/saved_model.pb as binary proto"),
        "text": (error_codes_pb2.DATA_LOSS, f"Can't parse {tmp_path}/text/saved_model.pbtxt as text proto"),
        "other": (
            error_codes_pb2.NOT_FOUND,
            "Could not find meta graph def matching supplied tags: { serve }. To inspect available tag-sets in the "
            "SavedModel, please use the SavedModel CLI: `saved_model_cli`",
        ),
        "missing": (error_codes_pb2.NOT_FOUND, f"{tmp_path}/missing; No such file or directory"),
    }
    for name, (code, message) in expected.items():
        with pytest.raises(SavedModelError) as caught:
            read_saved_model(str(tmp_path / name))
        assert (caught.value.code, caught.value.message) == (code, message)


def test_tags_choose_the_meta_graph(tmp_path: Path) -> None:
    path = str(write(tmp_path / "m", GraphBuilder(tags=("train",)), identity(), GraphBuilder(tags=("a", "b"))))
    assert list(read_saved_model(path).signatures) == ["serving_default"]
    assert read_saved_model(path, ("b", "a")).signatures == {}


def test_the_text_form_reads_like_the_binary_one(tmp_path: Path) -> None:
    binary = read_saved_model(str(write(tmp_path / "binary")))
    (tmp_path / "text").mkdir()
    text = to_text(saved_model_pb2.SavedModel.FromString(saved_model()))
    assert isinstance(identity().message, meta_graph_pb2.MetaGraphDef)
    (tmp_path / "text" / "saved_model.pbtxt").write_text(text)
    assert read_saved_model(str(tmp_path / "text")).signatures == binary.signatures


def test_the_fingerprint_changes_with_the_content(tmp_path: Path) -> None:
    directory = write(tmp_path / "m", identity().variables(), shards=[8])
    shard = directory / "variables" / "variables.data-00000-of-00001"
    seen = {fingerprint(str(directory))}
    assert fingerprint(str(directory)) in seen
    status = shard.stat()

    def rewrite() -> None:
        graph = directory / "saved_model.pb"
        times = graph.stat().st_mtime_ns
        graph.write_bytes(graph.read_bytes()[::-1])
        os.utime(graph, ns=(times, times))

    for change in (
        lambda: os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns + 1)),
        lambda: shard.write_bytes(b"123456789"),
        lambda: shard.rename(shard.with_name("other")),
        lambda: (directory / "new").touch(),
        rewrite,
    ):
        change()
        changed = fingerprint(str(directory))
        assert changed not in seen
        seen.add(changed)


def test_the_fingerprint_is_that_of_the_content_behind_links(tmp_path: Path) -> None:
    directory = write(tmp_path / "m", identity(), shards=[8])
    (tmp_path / "link").symlink_to(directory)
    assert fingerprint(str(tmp_path / "link")) == fingerprint(str(directory))


def test_walking_leaves_out_what_is_no_file_and_refuses_a_cycle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    (tmp_path / "a").symlink_to(tmp_path / "b")
    assert [file.name for file in walk(str(tmp_path))] == ["a/file", "b/file"]
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    with pytest.raises(OSError, match="a link leads back"):
        list(walk(str(tmp_path)))
