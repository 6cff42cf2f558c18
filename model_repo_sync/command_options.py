"""Options that several commands of `model-repo-sync` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from model_repo_sync import device, names
from model_repo_sync.batching import Batching
from model_repo_sync.config_files import read_text_proto
from model_repo_sync.protos.tensorflow_serving.session_bundle_config_pb2 import BatchingParameters
from model_repo_sync.triton_config import PROCESSES, RunnerOptions

_F = TypeVar("_F", bound=Callable[..., Any])


def parsed(parser: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str], Any]:
    """A callback that makes a value of the option's text; the parser's ValueError is a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: str) -> Any:
        try:
            return parser(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def _deployment(text: str) -> str:
    names.servable_name(text, "", 0)
    return text


def _tags(text: str) -> tuple[str, ...]:
    # TF Serving reads an empty flag as the default tag set.
    return tuple(tag for tag in text.split(",") if tag) or ("serve",)


def _paths(text: str) -> tuple[str, ...]:
    return tuple(path for path in text.split(",") if path)


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
repository = click.option("--repository", required=True, metavar="PATH", help="Triton's model repository.")
deployment = click.option(
    "--deployment",
    required=True,
    metavar="ID",
    callback=parsed(_deployment),
    help="8 hex digits that mark this owner's models.",
)
saved_model_tags = click.option(
    "--saved_model_tags",
    "tags",
    default="serve",
    show_default=True,
    metavar="TAG,...",
    callback=parsed(_tags),
    help="Tags of the MetaGraph to serve.",
)
_RUNNER = (
    click.option(
        "--device",
        "place",
        default="auto",
        show_default=True,
        metavar="DEVICE",
        callback=parsed(device.parse),
        help="auto, cpu, gpu or gpu:N,...; auto is gpu where nvidia-smi lists one.",
    ),
    click.option(
        "--per_process_gpu_memory_fraction",
        "fraction",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0, 1),
        help="Share of a GPU's memory for one model; 0 is no cap.",
    ),
    click.option(
        "--runner_threads",
        "threads",
        default=RunnerOptions().threads,
        show_default=True,
        type=click.IntRange(1),
        help="Requests that run at once in one slow model.",
    ),
    click.option(
        "--runner_queue_size",
        "queue_size",
        default=RunnerOptions().queue_size,
        show_default=True,
        type=click.IntRange(1),
        help="Requests that may wait for one model.",
    ),
    click.option(
        "--runner_processes",
        "processes",
        default=RunnerOptions().processes,
        show_default=True,
        type=click.Choice(PROCESSES),
        help="A process for each version, or one for all of a device.",
    ),
    click.option(
        "--batching_parameters_file",
        "batching",
        default="",
        metavar="PATH",
        help="Text-format BatchingParameters; requests are merged only with one.",
    ),
    click.option(
        "--op_libraries",
        default="",
        metavar="PATH,...",
        callback=parsed(_paths),
        help="Shared libraries with custom ops, as Triton sees them.",
    ),
)


def runner(command: _F) -> _F:
    """Adds the options that `runner_options` takes."""
    for option in reversed(_RUNNER):
        command = option(command)
    return command


def runner_options(
    place: device.Device,
    fraction: float,
    threads: int,
    queue_size: int,
    processes: str,
    batching: str,
    op_libraries: tuple[str, ...],
) -> RunnerOptions:
    """The runner's options from those of the command line. Raises ConfigFileError."""
    return RunnerOptions(
        threads=threads,
        queue_size=queue_size,
        device=place.resolve(device.nvidia_gpu_visible),
        gpu_memory_fraction=fraction,
        batching=Batching(read_text_proto(batching, BatchingParameters)) if batching else None,
        op_libraries=op_libraries,
        processes=processes,
    )
