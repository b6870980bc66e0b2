"""The datasets of a round. Each is registered during a disturbance, and must be validated whatever happens.

Some have a FIFO named as a data file. Nobody writes into it, so whoever opens it as a file waits for ever. A job trains
on such a folder. None of that may keep others waiting.
"""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet

from hora.service import HoraError, Json, Service
from tests.chaos.people import Clients

_SAMPLES = 64
_JOB = {
    "batch_size": 8, "learning_rate": 0.001, "model": "mlp", "epochs": 1, "early_stopping": None, "max_restarts": 0,
    "stall_timeout_s": 120,
}  # fmt: skip


class Entry(threading.Thread):
    """Registers one dataset. For one with a FIFO it also submits a job."""

    def __init__(self, folder: Path, name: str, clients: Clients, *, has_fifo: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.has_fifo = has_fifo
        self.troubles: list[str] = []
        self.job_id: str | None = None
        self._folder = folder
        self._clients = clients

    def run(self) -> None:
        """Write the files, register them, and submit the job."""
        self._folder.mkdir()
        labels = [number % 2 for number in range(_SAMPLES)]
        table = pyarrow.table({"one": [float(label) for label in labels], "label": labels})
        pyarrow.parquet.write_table(table, self._folder / "a.parquet")
        if self.has_fifo:
            os.mkfifo(self._folder / "b.parquet")
        document = {"name": self.name, "source": self._folder.name}
        try:
            self._ask(lambda service: service.register_dataset(document, idempotency_key=self.name))
            if self.has_fifo:
                spec = {**_JOB, "name": self.name, "dataset": f"./{self._folder.name}"}
                self.job_id = self._ask(lambda service: service.submit(spec, idempotency_key=self.name))["id"]
        except HoraError as error:
            self.troubles.append(f"{self.name}: {type(error).__name__}: {error}")

    def unsettled(self, service: Service) -> list[str]:
        """What has not come to an end yet."""
        if self.is_alive():
            return [f"dataset {self.name} is not registered"]
        if self.troubles:
            return []
        version = service.dataset_version(self.name, 1)
        waiting = [f"dataset {self.name} is {version['status']}"] if version["status"] == "validating" else []
        if self.job_id is not None and (job := service.job(self.job_id))["ended_at"] is None:
            waiting.append(f"the job on {self.name} is {job['status']}")
        return waiting

    def failures(self, service: Service) -> list[str]:
        """What is wrong with the ends: a good dataset that is not ready, a job that hung on the FIFO."""
        if self.troubles:
            return self.troubles
        failures, version = [], service.dataset_version(self.name, 1)
        if not self.has_fifo and version["status"] != "ready":
            failures.append(f"the good dataset {self.name} is {version['status']}: {version.get('error')}")
        if self.job_id is not None and (job := service.job(self.job_id))["end_reason"] == "stalled":
            failures.append(f"the job on {self.name} hung: {job['error']}")
        return failures

    def _ask(self, request: Callable[[Service], Json]) -> Json:
        return self._clients.ask(request, troubles=self.troubles, name=self.name)


class Library:
    """All datasets of a round, below one data root."""

    def __init__(self, root: Path, clients: Clients) -> None:
        self._root = root
        self._clients = clients
        self.entries: list[Entry] = []

    def add(self, *, has_fifo: bool = False) -> str:
        """Register another dataset, in the background. Returns its name."""
        name = f"{'fifo' if has_fifo else 'good'}-{len(self.entries)}"
        entry = Entry(self._root / name, name, self._clients, has_fifo=has_fifo)
        self.entries.append(entry)
        entry.start()
        return name

    @property
    def job_ids(self) -> set[str]:
        """The jobs on datasets with a FIFO."""
        return {entry.job_id for entry in self.entries if entry.job_id is not None}

    def unsettled(self) -> Sequence[str]:
        """What is not over yet: registrations, validations, jobs."""
        return [line for entry in self.entries for line in self._clients.ask(entry.unsettled)]

    def failures(self) -> Sequence[str]:
        """What went wrong."""
        return [line for entry in self.entries for line in self._clients.ask(entry.failures)]
