"""The stack of a round: two apis, workers with a host each, a broker, and a database with a standby.

All of it runs on this machine. Each api and each worker has a home, a keeper and a clock of its own; each worker also a
disk for the files of its jobs. Nothing is shared but the database, the broker and the folder of the datasets.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unittest.mock import patch

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId
from tests.chaos.clocks import Clock
from tests.chaos.databases import DatabasePair
from tests.chaos.disks import Disk
from tests.waiting import until

APIS = 2
SLOTS = (2, 1, 1)  # of each host, unless the round wants others


@dataclass(frozen=True)
class Member:
    """One api, or one worker with its host."""

    name: str
    part: str  # api or worker
    stack: Stack
    clock: Clock
    disk: Disk | None = None  # of a host

    @property
    def home(self) -> Path:
        """The home, as it marks its processes."""
        return self.stack.home.resolve()

    @property
    def process(self) -> ProcessId:
        """Its process now; a part that was started again has another."""
        return self.stack.state.parts[self.part]


class Site:
    """Starts on entry and is stopped on exit, or when this process dies.

    `times` are settings of every part; `slots` are those of each host.
    """

    def __init__(self, folder: Path, times: Mapping[str, str], slots: Sequence[int] = SLOTS) -> None:
        folder.mkdir(parents=True)
        self.folder = folder.resolve()
        self.token = secrets.token_urlsafe(16)
        self.datasets = self.folder / "data"  # a data root
        self._times = times
        self._slots = slots
        self._open = ExitStack()
        self.apis: list[Member] = []
        self.hosts: list[Member] = []

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.datasets.mkdir()
            self.databases = DatabasePair(self._subfolder("database"))
            opened.callback(self.databases.stop)
            self.databases.start()
            self.broker = Stack(self.folder / "hub", port=0, parts=("broker", "migrations"), embedded=False)
            self._start(self.broker, opened, {"HORA_DATABASE_URL": self.databases.url})
            self.apis = [self._api(number, opened) for number in range(APIS)]
            self.hosts = [self._host(number, slots, opened) for number, slots in enumerate(self._slots)]
            with Service(self.apis[0].stack.url, self.token) as client:
                until(lambda: len(client.hosts()) == len(self._slots), what="all hosts")
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def database_url(self) -> str:
        """The address of the database."""
        return self.databases.url

    @property
    def homes(self) -> Sequence[Path]:
        """The homes of the hosts."""
        return [host.home for host in self.hosts]

    def _api(self, number: int, opened: ExitStack) -> Member:
        name = f"api-{number}"
        stack = Stack(self.folder / name, port=0, parts=("api",), embedded=False)
        member = Member(name, "api", stack, self._clock(name))
        self._start(member.stack, opened, self._addresses() | self._of_clock(member.clock))
        return member

    def _host(self, number: int, slots: int, opened: ExitStack) -> Member:
        name = f"host-{number}"
        stack = Stack(self.folder / name, slots=slots, parts=("worker",), embedded=False)
        disk = Disk(self.folder / name / "runs")
        disk.mount()
        opened.callback(disk.unmount)
        member = Member(name, "worker", stack, self._clock(name), disk)
        self._start(stack, opened, self._addresses() | self._of_clock(member.clock) | {"HORA_HOST_NAME": name})
        return member

    def _start(self, stack: Stack, opened: ExitStack, variables: Mapping[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HORA_")}
        with patch.dict(os.environ, {**kept, **self._times, **variables}, clear=True):
            stack.start(stays=False)
        opened.callback(stack.stop)

    def _addresses(self) -> dict[str, str]:
        return {
            "HORA_DATABASE_URL": self.databases.url,
            "HORA_BROKER_URL": self.broker.broker_url,
            "HORA_TOKEN": self.token,
            "HORA_DATASETS_DIR": str(self._subfolder("datasets")),
            "HORA_DATA_ROOTS": str(self.datasets),
        }

    def _clock(self, name: str) -> Clock:
        return Clock(self.folder / "clocks" / name)

    def _subfolder(self, name: str) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        return self.folder / name

    @staticmethod
    def _of_clock(clock: Clock) -> dict[str, str]:
        paths = [str(clock.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**clock.environment, "PYTHONPATH": os.pathsep.join(paths)}
