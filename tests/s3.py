"""A real S3 server on loopback: SeaweedFS, from its wheel. For tests of the store.

It keeps its data in a folder, checks signatures, and answers as S3 does, with two exceptions:

- For up to 30 s after its last file is removed, a folder is still listed, as an empty one: `find`, `ls` and `exists` of
  s3fs see it, and call it a directory.
- It refuses the signatures of version 2 that s3fs puts in addresses by default, if they have parameters of the answer.
  With `config_kwargs={"signature_version": "s3v4"}` they work. S3 itself takes the old ones only in its old regions.
"""

import json
import os
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec
import httpx2

from tests.servers import free_ports
from tests.waiting import until

KEY, SECRET = "hora-tests", "not-a-secret"
_ADDRESS = "127.0.0.1"
_PORTS = range(18_000, 32_000)  # the kernel gives none of these to a client, so a stopped server finds its own free
_SERVICES = ("s3", "master", "volume", "filer", "admin")
_HELD = ("setpriv", "--pdeathsig", "KILL", "--")  # the server ends with the thread that started it
_MEMORY = "400MiB"  # above this Go collects its garbage more often; with half of it, all the time


class S3Server:
    """A server that can be taken away and brought back. It starts with a bucket."""

    def __init__(self, folder: Path, *, bucket: str, prefix: str) -> None:
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._folder = folder
        self._bucket = bucket
        free = free_ports(_PORTS, 2 * len(_SERVICES))
        self._ports = {service: (free.pop(), free.pop()) for service in _SERVICES}
        self.port = self._ports["s3"][0]
        self.endpoint = f"http://{_ADDRESS}:{self.port}"
        self.options: dict[str, Any] = self.options_at(self.endpoint)
        self._process: subprocess.Popen[bytes] | None = None

    def options_at(self, endpoint: str) -> dict[str, Any]:
        """What HORA_STORE_OPTIONS says for a client that reaches the server at another address."""
        return {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}

    @property
    def pid(self) -> int:
        """The process of a started server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it on its ports, with the data in its folder. Returns when it takes files."""
        assert self._process is None
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_HELD, *self._argv()],
                cwd=self._folder,
                env={
                    "HOME": str(self._folder),
                    "PATH": os.environ["PATH"],
                    "GOMEMLIMIT": _MEMORY,
                    "WEED_FILER_OPTIONS_S3_EMPTY_FOLDER_CLEANUP_DELAY": "1ms",  # it looks every 30 s
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._is_healthy, what=f"an S3 server at {self.endpoint}")
        until(self._takes_files, what=f"a file in {self._bucket} at {self.endpoint}")

    def stop(self) -> None:
        """Kill it. What it has confirmed is in its folder. If it does not run, nothing happens."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for service, (_, port) in self._ports.items():  # a killed server leaves them
            Path(f"/tmp/seaweedfs-{service}-grpc-{port}.sock").unlink(missing_ok=True)

    def _argv(self) -> list[str]:
        (self._folder / "identities.json").write_text(json.dumps(_IDENTITIES))
        (self._folder / "data").mkdir(exist_ok=True)
        ports = [
            argument
            for service, (http, grpc) in self._ports.items()
            for argument in (f"-{service}.port={http}", f"-{service}.port.grpc={grpc}")
        ]
        return [
            str(Path(sysconfig.get_path("scripts")) / "weed"),
            "-logtostderr",
            "mini",
            f"-dir={self._folder / 'data'}",
            f"-ip={_ADDRESS}",
            f"-ip.bind={_ADDRESS}",
            *ports,
            f"-s3.config={self._folder / 'identities.json'}",
            f"-s3.localSocket={self._folder / 's3.sock'}",
            f"-filer.localSocket={self._folder / 'filer.sock'}",
            f"-bucket={self._bucket}",
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-webdav=false",
            "-admin.ui=false",
            "-master.telemetry=false",
            "-master.resumeState=false",  # else it may wait seconds for itself to lead the cluster that it was
            "-master.volumeSizeLimitMB=128",
            "-volume.max=32",
            "-volume.preStopSeconds=0",
        ]

    def _is_healthy(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "server.log").read_text(errors="replace")
            raise RuntimeError(f"the S3 server ended with {self._process.returncode}: {log[-2000:]}")
        with suppress(httpx2.TransportError):
            return httpx2.get(f"{self.endpoint}/healthz", timeout=5).is_success
        return False

    def _takes_files(self) -> bool:
        files = fsspec.filesystem("s3", **self.options, skip_instance_cache=True, use_listings_cache=False)
        with suppress(OSError):
            name = f"{self._bucket}/.started-{time.monotonic_ns()}"
            files.pipe_file(name, b"1")
            files.rm_file(name)
            return True
        return False


@contextmanager
def s3_server(folder: Path, *, bucket: str = "hora-tests", prefix: str = "store") -> Iterator[S3Server]:
    """A started server with its data in a new folder, until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    server = S3Server(folder, bucket=bucket, prefix=prefix)
    try:
        server.start()
        yield server
    finally:
        server.stop()


_IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}
