"""The command `model-repo-sync`: what a base path offers, what a SavedModel serves, and one-shot synchronisation."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import orjson

from model_repo_sync import command_options, policy, triton_config
from model_repo_sync.agent import Agent, BridgeAnswers
from model_repo_sync.config_files import ConfigFileError
from model_repo_sync.repository import ModelRepository
from model_repo_sync.runner.tensorflow_engine import dtypes
from model_repo_sync.saved_model import SavedModel, SavedModelError, Signature, TensorSpec, read_saved_model
from model_repo_sync.sources import BasePathError, scan_base_path
from model_repo_sync.sync import Synchroniser, SyncReport, VersionResult
from model_repo_sync.transfer import TransferError

_FAILURES = (BasePathError, SavedModelError, TransferError, ConfigFileError, triton_config.ConfigError, OSError)


class _Group(click.Group):
    """Turns what can go wrong with files into one sentence on stderr and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except _FAILURES as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="triton-bridge")
def main() -> None:
    """Syncs TensorFlow SavedModels into a Triton model repository.

    Exit codes: 0 done, 1 something could not be read, served or written, 2 wrong usage.
    """


@main.command()
@click.argument("base_path")
@command_options.as_json
@click.pass_context
def scan(ctx: click.Context, /, base_path: str, as_json: bool) -> None:
    """Shows which version directories under BASE_PATH hold a whole SavedModel."""
    found = scan_base_path(base_path)
    if as_json:
        versions = [item._asdict() for item in found.versions]
        _print_json({"versions": versions, "problems": [item._asdict() for item in found.problems]})
    else:
        for item in found.versions:
            click.echo(f"{item.version}\t{item.path}")
        for problem in found.problems:
            click.echo(problem.sentence, err=True)
    ctx.exit(1 if found.problems else 0)


@main.command()
@click.argument("saved_model_dir")
@command_options.saved_model_tags
@command_options.as_json
def inspect(saved_model_dir: str, tags: tuple[str, ...], as_json: bool) -> None:
    """Shows the signatures of SAVED_MODEL_DIR as they would be served, with warnings and problems."""
    model = read_saved_model(saved_model_dir, tags)
    if as_json:
        _print_json(_model_json(model))
        return
    state = "changes state" if model.stateful else "stateless"
    click.echo(f"{model.path}: written by TensorFlow {model.tensorflow_version or '(unknown)'}, {state}")
    for signature in model.signatures.values():
        _print_signature(signature)
    for warning in model.warnings:
        click.echo(f"warning: {warning}", err=True)


@main.command()
@click.argument("saved_model_dir")
@click.option("--name", required=True, help="The model's name in Triton.")
@command_options.saved_model_tags
@command_options.runner
@command_options.as_json
def config(saved_model_dir: str, name: str, tags: tuple[str, ...], as_json: bool, **runner: Any) -> None:
    """Prints the config.pbtxt for SAVED_MODEL_DIR."""
    options = command_options.runner_options(**runner)
    text = triton_config.generate(name, read_saved_model(saved_model_dir, tags), options)
    if as_json:
        _print_json({"name": name, "config": text})
    else:
        click.echo(text, nl=False)


@main.command()
@click.option("--model_name", required=True, help="The name by which clients ask for the model.")
@click.option("--base_path", required=True, metavar="PATH", help="The directory, or URL, of version directories.")
@command_options.repository
@command_options.deployment
@click.option(
    "--version_policy",
    default="latest",
    show_default=True,
    metavar="POLICY",
    callback=command_options.parsed(policy.parse),
    help="latest, latest:N, all or specific:V,...",
)
@click.option(
    "--model_transfer",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "copy", "link"]),
    help="Hard links, copies, or links where possible.",
)
@click.option("--delete", is_flag=True, help="Remove the model's versions that the policy does not want.")
@command_options.saved_model_tags
@command_options.runner
@command_options.as_json
@click.pass_context
def sync(
    ctx: click.Context,
    /,
    model_name: str,
    base_path: str,
    repository: str,
    deployment: str,
    version_policy: policy.Policy,
    model_transfer: str,
    delete: bool,
    tags: tuple[str, ...],
    as_json: bool,
    **runner: Any,
) -> None:
    """Writes the versions of one model into the repository, once, and says what it changed."""
    target = ModelRepository(repository, deployment, model_transfer)
    synchroniser = Synchroniser(target, command_options.runner_options(**runner), tags)
    report = synchroniser.sync(model_name, base_path, version_policy, delete=delete)
    if as_json:
        _print_json(asdict(report))
    else:
        _print_report(report)
    ctx.exit(1 if report.failed else 0)


@main.command()
@command_options.repository
@command_options.deployment
@click.option("--keep", multiple=True, metavar="NAME", help="A model's name in Triton that stays; may repeat.")
@command_options.as_json
def clean(repository: str, deployment: str, keep: tuple[str, ...], as_json: bool) -> None:
    """Removes the deployment's models from the repository; those of others are left alone.

    Triton should have unloaded them first.
    """
    removed = ModelRepository(repository, deployment).purge(keep)
    if as_json:
        _print_json({"removed": removed})
    else:
        for name in removed:
            click.echo(f"removed {name}")


@main.command()
@click.option("--bridge", required=True, metavar="URL", help="The bridge's agent port: http://HOST:PORT.")
@click.option("--instance", required=True, metavar="NAME", help="This Triton as the bridge's --triton_url names it.")
@click.option("--token_file", required=True, type=click.Path(exists=True, dir_okay=False), help="The agents' token.")
@command_options.repository
@click.option("--interval", default=1.0, show_default=True, help="Seconds between two questions.")
def agent(bridge: str, instance: str, token_file: str, repository: str, interval: float) -> None:
    """Keeps the repository of a Triton on this host a copy of the bridge's, until it is ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    answers = BridgeAnswers(bridge, instance, Path(token_file).read_text().strip())
    Agent(answers, Path(repository)).run(interval)


def _print_json(value: Any) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _print_report(report: SyncReport) -> None:
    for result in report.versions:
        click.echo(f"version {result.version}: {_outcome(result)} {result.name}", err=bool(result.error))
        for warning in result.warnings:
            click.echo(f"warning: version {result.version}: {warning}", err=True)
    for name in report.removed:
        click.echo(f"removed {name}")
    for problem in report.problems:
        click.echo(problem, err=True)


def _outcome(result: VersionResult) -> str:
    if result.error:
        return f"{result.error} Not written:"
    return f"written by {result.transfer}, {result.bytes} bytes," if result.outcome == "written" else result.outcome


def _print_signature(signature: Signature) -> None:
    click.echo(f"{signature.name} ({signature.method_name or 'no method'})")
    for arrow, specs in (("<-", signature.inputs), ("->", signature.outputs)):
        for spec in specs:
            click.echo(f"  {arrow} {spec.alias}: {dtypes.name(spec.dtype)} {_shape(spec)} {spec.tensor}")
    if signature.problem:
        click.echo(f"  {signature.problem}")


def _shape(spec: TensorSpec) -> str:
    return "unknown rank" if spec.shape is None else str(list(spec.shape))


def _model_json(model: SavedModel) -> dict[str, Any]:
    return {
        "path": model.path,
        "tags": model.tags,
        "tensorflow_version": model.tensorflow_version,
        "stateful": model.stateful,
        "fingerprint": model.fingerprint,
        "warnings": model.warnings,
        "signatures": {name: _signature_json(item) for name, item in model.signatures.items()},
    }


def _signature_json(signature: Signature) -> dict[str, Any]:
    return {
        "method_name": signature.method_name,
        "problem": signature.problem,
        "inputs": {spec.alias: _tensor_json(spec) for spec in signature.inputs},
        "outputs": {spec.alias: _tensor_json(spec) for spec in signature.outputs},
        "defaults": sorted(signature.defaults),
    }


def _tensor_json(spec: TensorSpec) -> dict[str, Any]:
    return {"tensor": spec.tensor, "dtype": dtypes.name(spec.dtype), "shape": spec.shape}
