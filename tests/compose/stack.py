"""The stack of docker-compose.yml in containers, as `python -m tests.compose` starts, upgrades and removes it.

With `gpu` it is the one of docker-compose.gpu.yml, which then runs without a GPU (without-gpu.yml). With `store` its
workers share a store and no disk.

It runs in docker if the engine of docker answers, else in podman with a podman-compose of its own.
"""

import json
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hora.service import HoraError, Json, Service
from tests.commands import environment
from tests.nvml import build_stub
from tests.upgrade.versions import NEW, ROOT, Version
from tests.waiting import until

WORKERS = 2  # each is a host with one slot
_PROJECT = "hora-test"
_BUILT_SERVICES = ("migrate", "keys", "api", "worker")  # those with an image of this project
_START_LIMIT_S = 600.0
_WITH_STORE = """\
services:
  api:
    volumes:
      - {folder}:/mnt/team
  worker:
    volumes: !override
      - {folder}:/mnt/team
      - /var/lib/hora
      - /var/lib/hora-datasets
      - keys:/var/lib/hora-keys:ro
      - data:/data:ro
"""


class NoEngine(Exception):
    """Neither docker nor podman can start containers here; the text says so."""


def find_compose(folder: Path) -> tuple[str, ...]:
    """The command of docker compose, or of a podman-compose that is installed into `folder`. Raises `NoEngine`."""
    if _succeeds("docker", "compose", "version") and _succeeds("docker", "info"):
        return ("docker", "compose")
    if not shutil.which("podman"):
        raise NoEngine("found neither docker (with compose and a running engine) nor podman")
    uv = str(ROOT / ".uv/bin/uv")
    subprocess.run([uv, "venv", "--quiet", str(folder), "--python", sys.executable], check=True)
    pinned = ("--require-hashes", str(ROOT / "requirements/compose.txt"))
    subprocess.run([uv, "pip", "sync", "--quiet", "--python", str(folder), *pinned], check=True)
    return (str(folder / "bin/podman-compose"),)


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class ContainerStack:
    """A database, a broker, an api and two workers. `api` talks to the api; `settings` lead other clients to it."""

    def __init__(self, compose: Sequence[str], home: Path, *, gpu: bool = False, store: bool = False) -> None:
        self._command = compose
        self._gpu = gpu
        self._of_store: Path | None = None
        self._is_podman = compose[0] != "docker"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        token = secrets.token_hex(16)
        self.home = home
        self.settings = {"HORA_URL": f"http://127.0.0.1:{port}", "HORA_TOKEN": token}
        self._environment = environment(home, HORA_PORT=str(port), HORA_TOKEN=token, HORA_SLOTS="1")
        if gpu:
            self._environment["NVML_STUB_FOLDER"] = str(build_stub(home / "nvml").parent)
        if store:
            self._environment["HORA_STORE"] = "file:///mnt/team/hora"
            self._of_store = _with_store(home)
        self.api = Service(self.settings["HORA_URL"], token)

    @property
    def has_store(self) -> bool:
        """Whether its workers share a store and no disk."""
        return self._of_store is not None

    def build(self, version: Version) -> None:
        """Build the images of a version. They take the names of the images of another version."""
        # One after the other, because podman-compose would compile Horovod in each of them. Other services share them.
        # `up --build` would build the image of each container, all at once.
        self._compose("--parallel", "1", "build", "api", "worker", version=version)

    def up(self, version: Version) -> None:
        """Start this version, or replace another one by it. Wait until a job can be placed on all workers."""
        replaces = bool(self._containers())
        self.build(version)
        options = ["--detach", "--scale", f"worker={WORKERS}"]
        if replaces and self._is_podman:
            # podman-compose replaces a container if docker-compose.yml has changed, but not if only its image has.
            # When it is forced, it replaces the database too, and stops it while the workers save.
            options += ["--force-recreate", "--no-deps", *_BUILT_SERVICES]
        self._compose("up", *options, version=version)
        until(self._is_up, within_s=_START_LIMIT_S, what=f"the start of {version.name}")

    def _is_up(self) -> bool:
        try:
            return self.api.is_ready() and sum(is_usable(host) for host in self.api.hosts()) == WORKERS
        except HoraError:
            return False

    def outdated_services(self) -> list[str]:
        """The services of which a container runs another image than the one that was built last."""
        return [
            service
            for service in ("api", "worker")
            if self._inspect("container", "{{.Image}}", *self._containers(service))
            != self._inspect("image", "{{.Id}}", f"hora-{service}")
        ]

    def schema(self) -> str:
        """The version of the database's tables."""
        query = "SELECT version_num FROM alembic_version"
        return self._exec("db", "psql", "--username=hora", "--dbname=hora", "-tAc", query).strip()

    def doctor(self) -> list[Json]:
        """What `hora doctor` finds in a worker's container."""
        settings = ("HORA_URL=http://api:8400", f"HORA_TOKEN={self.settings['HORA_TOKEN']}")
        return list(json.loads(self._exec("worker", "env", *settings, "hora", "doctor", "--json"))["items"])

    def print_logs(self) -> None:
        """Print the last lines of every container."""
        self._compose("logs", "--tail", "100", check=False)

    def remove(self) -> None:
        """Remove all containers and volumes."""
        self.api.close()
        if self._is_podman:  # podman-compose does not remove the second container of a service
            self._engine("rm", "--force", "--ignore", "--time", "10", f"{_PROJECT}_worker_{WORKERS}")
        down = ("down", "--volumes", "--timeout", "10")
        # Twice if necessary: the first call misses a container that its restart policy has just started again.
        self._compose(*down, check=False) or self._compose(*down, check=False)

    def _compose(self, *arguments: str, version: Version = NEW, check: bool = True) -> bool:
        done = subprocess.run(self._argv(version.tree, arguments), env=self._environment, check=check)
        return done.returncode == 0

    def _exec(self, service: str, *command: str) -> str:
        """What a command prints in a container of a service."""
        argv = self._argv(NEW.tree, ("exec", "-T", service, *command))
        return subprocess.run(argv, env=self._environment, check=False, stdout=subprocess.PIPE, text=True).stdout

    def _argv(self, tree: Path, arguments: Sequence[str]) -> list[str]:
        files = [tree / "docker-compose.yml"]
        if self._gpu:
            files += [tree / "docker-compose.gpu.yml", tree / "tests/compose/without-gpu.yml"]
        if self._of_store is not None:
            files.append(self._of_store)
        return [*self._command, "-p", _PROJECT, *(f"--file={file}" for file in files), *arguments]

    def _containers(self, service: str | None = None) -> list[str]:
        labels = [f"project={_PROJECT}", *([f"service={service}"] if service else [])]
        filters = [f"--filter=label=com.docker.compose.{label}" for label in labels]
        return self._engine("ps", "--quiet", *filters)

    def _inspect(self, kind: str, value: str, *names: str) -> set[str]:
        return set(self._engine(kind, "inspect", "--format", value, *names))

    def _engine(self, *arguments: str) -> list[str]:
        """The words that podman or docker prints."""
        argv = ["podman" if self._is_podman else "docker", *arguments]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def _with_store(home: Path) -> Path:
    """A file over docker-compose.yml: the store is a folder of this machine, and each worker has a disk of its own.

    podman-compose puts no variables into a list with `!override`.
    """
    folder, file = home / "team", home / "with-store.yml"
    folder.mkdir()
    folder.chmod(0o777)  # the user in the containers writes there
    file.write_text(_WITH_STORE.format(folder=folder))
    return file


def is_usable(host: Json) -> bool:
    """Whether the host is alive, and other hosts reach it."""
    return bool(host["alive"] and host["address"])
