"""Object stores for tests: servers of their own that stand in for Amazon S3 and Google Cloud Storage.

with s3_server() as environment:
    BridgeServer(..., environment=environment)          # what a process needs to find it
    bucket = Bucket("s3://models")                      # in a process with that environment
    bucket.upload(directory, "half/1")
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model_repo_sync.object_store import open_file_system
from tests.support.tritonserver import free_ports
from tests.support.waiting import wait_for

START_SECONDS = 60.0


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """moto's S3 on a loopback port; the environment by which s3fs finds it, in TensorFlow's variables."""
    [port] = free_ports(1)
    with _serving([sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port):
        yield {
            "S3_ENDPOINT": f"127.0.0.1:{port}",
            "S3_USE_HTTPS": "0",
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }


@contextlib.contextmanager
def gcs_server() -> Iterator[dict[str, str]]:
    """gcp-storage-emulator on a loopback port; the environment by which gcsfs finds it."""
    [port] = free_ports(1)
    command = [sys.executable, "-W", "ignore", "-m", "gcp_storage_emulator", "start", "--host=127.0.0.1"]
    with _serving([*command, f"--port={port}", "--in-memory"], port):
        yield {
            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
            "FSSPEC_GS_TOKEN": "anon",
            # The emulator has no gRPC, by which gcsfs would ask what kind of bucket it meets.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }


class Bucket:
    """One bucket, new and empty; `url` is its root. `memory://` needs no server."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs: Any = open_file_system(url.partition("://")[0])
        self._fs.mkdir(self._fs._strip_protocol(self.url))

    def put(self, key: str, data: bytes) -> None:
        self._fs.pipe_file(self._key(key), data)

    def delete(self, key: str) -> None:
        """Delete an object, or all below it."""
        self._fs.invalidate_cache()
        self._fs.rm(self._key(key), recursive=True)

    def upload(self, directory: Path, key: str) -> None:
        """Put every file below `directory` under `key`."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(directory).as_posix()}", path.read_bytes())

    def _key(self, key: str) -> str:
        return f"{self.url}/{key}".rstrip("/")


@contextlib.contextmanager
def _serving(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _answers(process, port), START_SECONDS, f"{command} serves")
        yield
    finally:
        process.kill()
        process.wait()


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, f"{process.args!r} ended"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
