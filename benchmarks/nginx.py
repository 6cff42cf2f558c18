"""nginx as a plain gRPC hop before Triton: what a native program in that place adds."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.server import free_ports

PROGRAM = "nginx"
READY_SECONDS = 10.0
STOP_SECONDS = 10.0
CONFIGURATION = """\
daemon off;
master_process off;
error_log {directory}/error.log;
pid {directory}/pid;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path {directory}/client_body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    upstream triton {{ server {triton}; keepalive 64; keepalive_requests 10000000; }}
    server {{
        listen 127.0.0.1:{port} http2;
        keepalive_requests 10000000;
        location / {{ grpc_pass grpc://triton; }}
    }}
}}
"""


def available() -> bool:
    """Whether nginx is installed with the modules that a gRPC hop needs."""
    if shutil.which(PROGRAM) is None:
        return False
    built = subprocess.run([PROGRAM, "-V"], capture_output=True, text=True, check=False).stderr
    return "--with-http_v2_module" in built and "--without-http_grpc_module" not in built


@contextmanager
def nginx(directory: Path, triton: str) -> Iterator[str]:
    """HOST:PORT of an nginx of one process before the gRPC port `triton`; its files are in `directory`.

    Raises RuntimeError with its log when it does not listen.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    configuration = directory / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(directory=directory, triton=triton, port=port))
    log = directory / "error.log"
    process = subprocess.Popen(
        [PROGRAM, "-c", str(configuration), "-p", str(directory), "-e", str(log)], stderr=subprocess.DEVNULL
    )
    try:
        _wait(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nginx does not listen: {log.read_text() if log.exists() else 'it left no log'}")
