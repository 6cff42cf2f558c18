"""Every setting once: its flag, environment variable, type, default and help text.

A flag is `--name=value`, its variable `BRIDGE_NAME`; the flag wins. `SETTINGS` is what the command line, the docs and
the tests are made from; `Settings` is what the code reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from bridge.errors import InvalidArgument


def setting(default: Any, help_text: str, *, choices: tuple[str, ...] = ()) -> Any:
    """A field of `Settings` with its help text. A tuple default makes a flag that may repeat."""
    return field(default=default, metadata={"help": help_text, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """The settings of one server. Durations carry their unit in the name, as TF Serving's flags do."""

    port: int = setting(8500, "gRPC port for TF Serving clients, on every address; 0 turns it off")
    rest_api_port: int = setting(8501, "REST port for TF Serving clients, on every address; 0 turns it off")
    modelmesh_port: int = setting(8033, "gRPC port for ModelMesh clients, on every address; 0 turns ModelMesh off")
    admin_port: int = setting(8502, "port of the console, the admin API, /livez, /readyz and /metrics; 0 turns it off")
    admin_address: str = setting(
        "127.0.0.1", "address that the admin port binds to; another than loopback needs --access_token_file"
    )
    admin_ssl_config_file: str = setting("", "text-format SSLConfig; makes the admin port HTTPS, mutual if it says so")
    grpc_socket_path: str = setting("", "path of a Unix socket on which gRPC is served as well")
    grpc_server: str = setting(
        "auto",
        "what serves gRPC: the fast server where it is built and can do what is asked for, or always one of the two",
        choices=("auto", "native", "grpcio"),
    )
    grpc_channel_arguments: str = setting("", "KEY=VALUE,… handed to the gRPC server as channel arguments")
    rest_api_num_threads: int = setting(4, "threads that convert REST bodies past 1 MiB; smaller ones need none")
    rest_api_timeout_in_ms: int = setting(30_000, "deadline of a REST inference call; 0 or less means none")
    rest_api_enable_cors_support: bool = setting(False, "add CORS headers to every REST response")
    ssl_config_file: str = setting("", "text-format SSLConfig; makes the gRPC and REST ports TLS, mutual if it says so")
    access_token_file: str = setting(
        "",
        "JSON file with the bearer tokens and certificate subjects that may call, and their scopes; read again when it "
        "changes; the admin port then asks for one",
    )
    require_access: str = setting(
        "",
        "client ports that ask for a scope as well: grpc, rest, modelmesh or all, comma-separated, each as PORT or "
        "PORT:SCOPE, where SCOPE is inference, read or manage",
    )
    open_metrics: bool = setting(False, "let metrics be read without a token where a port asks for one")
    use_alts_credentials: bool = setting(False, "secure the gRPC port by ALTS; works on Google Cloud only")
    enable_grpc_healthcheck_service: bool = setting(False, "serve grpc.health.v1.Health on the gRPC port")
    enable_serialization_as_tensor_content: bool = setting(
        False, "answer Predict over gRPC with tensor_content instead of typed fields"
    )
    enable_signature_method_name_check: bool = setting(
        False, "let Predict refuse signatures whose method name is not TF Serving's"
    )
    monitoring_config_file: str = setting("", "text-format MonitoringConfig that turns the Prometheus page on")

    model_name: str = setting("default", "name of the model in --model_base_path; ignored with --model_config_file")
    model_base_path: str = setting("", "directory that holds the numbered version directories of one model")
    model_config_file: str = setting("", "text-format ModelServerConfig that lists the models to serve")
    model_config_file_poll_wait_seconds: int = setting(
        0, "seconds between two readings of --model_config_file; 0 or less reads it at the start only"
    )
    allow_version_labels_for_unavailable_models: bool = setting(
        False, "let a new label point at a version that is not available yet"
    )
    file_system_poll_wait_seconds: int = setting(
        1, "seconds between two looks at the base paths; 0 looks exactly once, a negative number never"
    )
    object_store_poll_wait_seconds: int = setting(
        30, "least seconds between two looks at a base path in an object store, whose listings cost money"
    )
    reload_timeout_seconds: int = setting(
        600, "how long a configuration sent by a client may take to load its new models; 0 means for ever"
    )
    servable_versions_always_present: bool = setting(
        True, "keep serving what serves when a base path is found without versions"
    )
    fail_if_zero_versions_at_startup: bool = setting(
        False, "refuse to start or to reload when a configured model has no version"
    )
    allowed_base_paths: str = setting(
        "", "comma-separated directories and URLs that every base path has to lie in; empty allows all"
    )
    allowed_request_log_paths: str = setting(
        "", "comma-separated directories that every logging_config has to write to; empty allows all"
    )
    request_log_file_bytes: int = setting(
        268_435_456, "bytes past which a file of logged requests is followed by a new one"
    )
    model_root: str = setting(
        "", "directory below which models that ModelMesh clients register have to lie; empty refuses local paths"
    )
    storage_config_dir: str = setting(
        "", "directory with a JSON file for each storage that the keys of registered models may name, as in KServe"
    )
    pvc_root: str = setting(
        "/pvc_mounts", "directory in which claims are mounted, each by its name, for storages of type pvc"
    )
    modelmesh_default_vmodel_owner: str = setting("", "owner of vmodels that are created without one")
    modelmesh_default_model_bytes: int = setting(
        100_000_000, "bytes that a registered model is taken to need until that is known better"
    )
    modelmesh_load_wait_seconds: int = setting(600, "how long a request waits for a registered model to load")
    modelmesh_second_copies: bool = setting(
        True, "give registered models that are used regularly a second copy, and busy ones more"
    )
    modelmesh_fill_free_space: bool = setting(False, "load registered models that nobody asked for while there is room")
    modelmesh_min_churn_age_ms: int = setting(
        0, "a full instance whose least recently used model was used within this time takes no other; 0 is no such rule"
    )
    max_num_load_retries: int = setting(5, "how often a failed load of a version is tried again")
    load_retry_interval_micros: int = setting(60_000_000, "microseconds between two tries of a load")
    load_concurrency: int = setting(2, "loads in flight at a time on one Triton instance")
    enable_model_warmup: bool = setting(True, "replay a version's warmup requests before it is available")
    num_request_iterations_for_warmup: int = setting(0, "how often each warmup request runs; 0 or less means once")
    op_libraries: str = setting(
        "", "comma-separated shared libraries with custom ops, as Triton sees them, loaded before each SavedModel"
    )
    saved_model_tags: str = setting("serve", "comma-separated tags of the MetaGraph to serve")
    platform_config_file: str = setting(
        "", "text-format PlatformConfigMap; replaces the flags of batching, warmup, tags and sessions"
    )
    rollback_keep: int = setting(
        2, "contents of each model that are kept after they served, so that a rollback needs no source; 0 keeps none"
    )
    transition_policy: str = setting(
        "availability_preserving",
        "whether a version is unloaded when its successor serves, or before that loads, which saves memory",
        choices=("availability_preserving", "resource_preserving"),
    )
    model_load_timeout_seconds: int = setting(600, "seconds after which a load that Triton did not finish is given up")

    state_dir: str = setting("./bridge-state", "directory of the database, the model repository, logs and server.json")
    database_url: str = setting("", "SQLAlchemy URL of the registry; empty means SQLite in the state directory")
    migrate: bool = setting(False, "bring an older PostgreSQL schema up to date at start")
    replica_name: str = setting(
        "", "name of this bridge among those on one database; made of the host and the state directory"
    )
    replica_address: str = setting(
        "127.0.0.1:0",
        "HOST:PORT where the other bridges on the same PostgreSQL reach this one; port 0 takes a free one",
    )
    leader_lease_seconds: int = setting(5, "how long a silent bridge leads those on the same PostgreSQL")
    deployment_id: str = setting(
        "", "8 hex digits in the names of this deployment's Triton models; made with the database"
    )
    config_takeover: bool = setting(False, "apply this start's configuration although a newer one replaced it before")
    audit_key_file: str = setting("", "file with the key that turns the hash chain of the events into an HMAC")

    triton_url: tuple[str, ...] = setting((), "HOST:PORT of a Triton's gRPC; without it one is started; may repeat")
    triton_http_url: tuple[str, ...] = setting((), "HOST:PORT of that Triton's HTTP, by position; may repeat")
    triton_repository: tuple[str, ...] = setting(
        (), "PATH or PATH=PATH_AS_TRITON_SEES_IT of the model repository, by position or one for all; may repeat"
    )
    triton_capacity_bytes: tuple[str, ...] = setting(
        (),
        "bytes that registered models may take on a Triton, by position or one for all; without it 9 tenths of the "
        "memory that is available there, on a GPU of that of the GPUs; may repeat",
    )
    triton_labels: tuple[str, ...] = setting(
        (), "comma-separated labels of a Triton that type constraints ask for, by position or one for all; may repeat"
    )
    agent_port: int = setting(
        0,
        "port for the agents on the hosts of Tritons that cannot read the bridge's model repositories: each load waits "
        "until its agent has copied the model; 0 is no agents",
    )
    agent_address: str = setting("127.0.0.1", "address of the agent port")
    agent_token_file: str = setting("", "file with the token that agents have to send")
    triton_ca_file: str = setting("", "PEM file with the roots that a remote Triton's certificate is checked against")
    triton_cert_file: str = setting("", "PEM file with the client certificate for remote Tritons")
    triton_key_file: str = setting("", "PEM file with the key of that certificate")
    triton_tls: bool = setting(False, "use TLS to remote Tritons; implied by --triton_ca_file")
    triton_header: tuple[str, ...] = setting((), "NAME=VALUE sent with every call to a remote Triton; may repeat")
    triton_http_body_limit: int = setting(
        67_108_864, "bytes past which a request goes to Triton by gRPC, since its HTTP refuses larger bodies"
    )
    triton_shared_memory_threshold: int = setting(
        131_072, "bytes from which tensors travel in shared memory to a Triton that maps it, too"
    )
    triton_shared_memory_bytes: int = setting(
        1_073_741_824, "shared memory that such tensors may take at a time in each process; 0 is none"
    )

    model_transfer: str = setting(
        "auto",
        "how a SavedModel gets into the model repository: hard links file by file, copies, or links where possible",
        choices=("auto", "copy", "link"),
    )
    device: str = setting("auto", "where models run: auto, cpu, gpu or gpu:N,…")
    per_process_gpu_memory_fraction: float = setting(0.0, "share of a GPU's memory that one runner may take; 0 is all")
    enable_batching: bool = setting(False, "merge concurrent requests into batches")
    batching_parameters_file: str = setting("", "text-format BatchingParameters; needs --enable_batching")
    enable_per_model_batching_parameters: bool = setting(
        False, "take batching parameters from batching_params.pbtxt in each version directory; needs --enable_batching"
    )
    tensorflow_session_config_file: str = setting("", "text-format ConfigProto that sessions are opened with")
    tensorflow_session_parallelism: int = setting(0, "sets both of the following, 0 neither")
    tensorflow_intra_op_parallelism: int = setting(0, "threads inside one TensorFlow op; 0 lets TensorFlow choose")
    tensorflow_inter_op_parallelism: int = setting(
        0, "threads for independent TensorFlow ops; 0 runs ops in the caller's thread, the fastest for small graphs"
    )
    mixed_precision: str = setting("", "bfloat16 lets TensorFlow compute in it where that is safe")
    runner_threads: int = setting(4, "requests that one version may run at the same time when its runs are slow")
    runner_queue_size: int = setting(1000, "requests that may wait for one version; more are refused with UNAVAILABLE")
    runner_processes: str = setting(
        "per-version",
        "where SavedModels run: each version in a process of its own, or all of a Triton's device in one, which takes "
        "less memory per version and ends all of them when it dies",
        choices=("per-version", "per-device"),
    )

    recovery_wait_ms: int = setting(5000, "how long a request waits for a version that lost its copies")
    request_timeout_seconds: int = setting(3600, "deadline of a call to Triton whose client set none")
    workers: int = setting(
        1, "processes that answer clients, on the same ports; with 1 the process with the control plane does"
    )
    drain_seconds: int = setting(30, "how long SIGTERM waits for requests in flight")
    router_lease_seconds: int = setting(10, "how long a silent router process may hold up an unload")
    log_level: str = setting("info", "least severe log line", choices=("debug", "info", "warning", "error"))

    @property
    def load_retry_interval(self) -> float:
        """Seconds; a negative setting means no pause, as in TF Serving."""
        return max(0.0, self.load_retry_interval_micros / 1e6)


@dataclass(frozen=True)
class Setting:
    """One entry of the settings table."""

    name: str
    default: Any
    help: str
    choices: tuple[str, ...]

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        return f"BRIDGE_{self.name.upper()}"

    @property
    def repeats(self) -> bool:
        return isinstance(self.default, tuple)

    @property
    def type(self) -> type:
        return str if self.repeats else type(self.default)


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(item.name, item.default, item.metadata["help"], item.metadata["choices"]) for item in fields(Settings)
)


def build(values: Mapping[str, Any]) -> Settings:
    """Settings from parsed values; values that are None are left at their default.

    Raises InvalidArgument for combinations that cannot work.
    """
    settings = Settings(**{name: value for name, value in values.items() if value is not None})
    check(settings)
    return settings


def check(settings: Settings) -> None:
    """Refuse settings that cannot work together, each with one sentence."""
    if settings.deployment_id and not _is_deployment_id(settings.deployment_id):
        raise InvalidArgument(f"--deployment_id={settings.deployment_id} is not 8 lower-case hex digits")
    if settings.triton_http_url and len(settings.triton_http_url) != len(settings.triton_url):
        raise InvalidArgument(
            f"--triton_http_url is given {len(settings.triton_http_url)} times and --triton_url "
            f"{len(settings.triton_url)} times; give one for each"
        )
    if settings.triton_url and len(settings.triton_repository) not in (1, len(settings.triton_url)):
        raise InvalidArgument(
            "--triton_url needs --triton_repository=PATH[=PATH_AS_TRITON_SEES_IT], once for all or once for each"
        )
    if settings.triton_repository and not settings.triton_url:
        raise InvalidArgument("--triton_repository needs --triton_url; the embedded Triton uses the state directory")
    for header in settings.triton_header:
        if "=" not in header:
            raise InvalidArgument(f"--triton_header={header} is not NAME=VALUE")
    if len(settings.triton_capacity_bytes) not in (0, 1, max(1, len(settings.triton_url))):
        raise InvalidArgument("--triton_capacity_bytes is given once for all Tritons or once for each")
    if len(settings.triton_labels) not in (0, 1, max(1, len(settings.triton_url))):
        raise InvalidArgument("--triton_labels is given once for all Tritons or once for each")
    for number in settings.triton_capacity_bytes:
        if not number.isdecimal() or not int(number):
            raise InvalidArgument(f"--triton_capacity_bytes={number} is no number of bytes")
    if settings.agent_port and not (settings.agent_token_file and settings.triton_url):
        raise InvalidArgument("--agent_port needs --agent_token_file, and --triton_url for the Tritons of the agents")
    if bool(settings.triton_cert_file) != bool(settings.triton_key_file):
        raise InvalidArgument("--triton_cert_file and --triton_key_file are only of use together")
    if settings.rollback_keep < 0:
        raise InvalidArgument(f"--rollback_keep={settings.rollback_keep} is less than 0")
    for name in (
        "modelmesh_default_model_bytes",
        "workers",
        "load_concurrency",
        "runner_threads",
        "runner_queue_size",
        "request_timeout_seconds",
    ):
        if getattr(settings, name) < 1:
            raise InvalidArgument(f"--{name}={getattr(settings, name)} has to be at least 1")


def describe(settings: Settings) -> dict[str, Any]:
    """The settings as plain data for the event that a start writes; header values are left out."""
    plain = dataclasses.asdict(settings)
    plain["triton_header"] = [header.partition("=")[0] for header in settings.triton_header]
    plain["database_url"] = _without_password(settings.database_url)
    return plain


def _is_deployment_id(text: str) -> bool:
    return len(text) == 8 and all(character in "0123456789abcdef" for character in text)


def _without_password(url: str) -> str:
    head, separator, tail = url.rpartition("@")
    scheme, _, credentials = head.partition("://")
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}@{tail}" if separator else url
