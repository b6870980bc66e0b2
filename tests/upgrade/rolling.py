"""An upgrade part by part while jobs train: the schema, the apis, and the workers of two hosts, one after the other.

    all old -> new schema -> new api beside the old one -> new worker on one host -> all new

A supervisor and a rank that an old worker started go on under the new parts. In every stage the apis are used, and a
short job starts. At the end no job is lost, no attempt was disturbed, and every curve is whole.
"""

import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from hora.service import HoraError, Json, Service
from hora.stack.control import Stack
from tests.chaos.census import processes_of
from tests.chaos.verdict import broken_curve
from tests.chaos.witness import call_witness, late_points, notes_of, unfinished
from tests.upgrade.versions import NEW, Version
from tests.waiting import until

HOSTS = ("ha", "hb")
TOKEN = "token-of-the-upgrade"
_ADDRESS = "127.0.0.1"
_SHORT_EPOCHS = 5
_JOB: dict[str, Any] = {
    "dataset": "digits", "model": "mlp", "batch_size": 64, "learning_rate": 0.001, "gpus": 1,
    "epochs": _SHORT_EPOCHS, "early_stopping": None,
}  # fmt: skip
# Epochs of some tenths of a second: all points of its curve stay within what the api gives at once.
_LONG: dict[str, Any] = {**_JOB, "model": "lenet5", "batch_size": 8, "epochs": 100_000, "name": "long"}


@dataclass
class Upgrade:
    """The stack that is upgraded. `say` gets a line for each stage."""

    folder: Path
    old: Version
    say: Callable[[str], None]
    short_jobs: list[str] = field(default_factory=list)
    _long_job: str = ""
    _processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def run(self) -> list[str]:
        """Upgrade everything. Returns a sentence for each failure."""
        self.folder.mkdir()
        with ExitStack() as end:
            parts = Stack(self.folder / "parts", port=0, parts=("database", "broker"))
            self._services = end.enter_context(parts)
            end.callback(self._stop_all)
            return self._run(end)

    def _run(self, end: ExitStack) -> list[str]:
        self.old.migrate(self._settings())
        old_api = self._start_api("old-api", self.old, end)
        self._start_worker(HOSTS[0], self.old)
        until(old_api.hosts, what="the first host")
        with psycopg.connect(self._services.database_url, autocommit=True) as connection:
            call_witness(connection)
        self._long_job = old_api.submit(_LONG)["id"]
        self._wait_for_progress(old_api)
        self._start_worker(HOSTS[1], self.old)
        NEW.migrate(self._settings())
        self._use(old_api, "old parts on the new schema")
        new_api = self._start_api("new-api", NEW, end)
        self._read(old_api, new_api)
        self._replace_worker(HOSTS[0])
        self._use(new_api, "a new worker beside an old one")
        self._read(old_api, new_api)
        self._stop("old-api")
        self._replace_worker(HOSTS[1])
        self._wait_for_progress(new_api)
        return [*self._failures_of_long_job(new_api), *self._failures(new_api)]

    def _failures_of_long_job(self, api: Service) -> list[str]:
        """It still trains under its supervisor of the old version. Then a rank dies, and this version restarts it."""
        ends = [attempt["end_reason"] for attempt in api.attempts(self._long_job)]
        failures = [f"the long job was disturbed: {ends}"] if ends != [None] else []
        for process in processes_of(*map(self._home, HOSTS)):
            if process.role == "rank" and process.job_id == self._long_job:
                process.process_id.signal(signal.SIGKILL)
        until(lambda: api.job(self._long_job)["attempt"] == len(ends) + 1, what="a restart by this version")
        self._wait_for_progress(api)
        if not api.attempts(self._long_job)[-1]["resumed_step"]:
            failures.append("the long job began anew after its restart")
        self.say("this version restarted a job from a checkpoint of the old one")
        api.cancel(self._long_job)
        until(lambda: _ended(api, self._long_job), what="the cancel")
        return failures

    def _failures(self, api: Service) -> list[str]:
        for job_id in self.short_jobs:
            until(lambda job_id=job_id: _ended(api, job_id), what="the end of a short job")
        until(lambda: all(slot["state"] == "free" for host in api.hosts() for slot in host["slots"]), what="free slots")
        jobs = {job["id"]: job for job in api.jobs()}
        failures = [f"job {job_id} is gone" for job_id in {self._long_job, *self.short_jobs} - jobs.keys()]
        for job in jobs.values():
            name, expected = job["name"], "cancelled" if job["id"] == self._long_job else "succeeded"
            if job["status"] != expected:
                failures.append(f"{name} is {job['status']}, not {expected}: {job['end_reason']}, {job['error']}")
            series = api.metrics(job["id"], name="val_loss", axis="epoch")
            failures += broken_curve(
                name, _last_epoch(series) if job["id"] == self._long_job else _SHORT_EPOCHS, series
            )
        with psycopg.connect(self._services.database_url, autocommit=True) as connection:
            failures += notes_of(connection) + late_points(connection) + unfinished(connection)
        return failures

    def _read(self, *apis: Service) -> None:
        """Every api answers about the jobs of the others."""
        for api in apis:
            assert api.is_ready()
            assert {job["id"] for job in api.jobs()} == {self._long_job, *self.short_jobs}
            assert api.job(self._long_job)["status"] == "running"
            assert api.metrics(self._long_job, name="val_loss", axis="epoch")
            assert list(api.log_lines(self._long_job))

    def _use(self, api: Service, stage: str) -> None:
        """Submit a short job and wait for its placement. It trains while the upgrade goes on."""
        job_id = api.submit({**_JOB, "name": f"short-{len(self.short_jobs)}"})["id"]
        self.short_jobs.append(job_id)
        until(lambda: api.job(job_id)["attempt"], what=f"the placement of a job, with {stage}")
        self.say(f"{stage}: a job was placed on {api.attempts(job_id)[0]['host']}")

    def _wait_for_progress(self, api: Service) -> None:
        """Wait until the long job has trained two epochs from now on."""

        def epoch() -> int:
            job = api.job(self._long_job)
            assert job["ended_at"] is None, job
            return int((job["progress"] or {}).get("epoch", 0))

        begun = epoch()
        until(lambda: epoch() >= begun + 2, what="progress of the long job")

    def _settings(self) -> dict[str, str]:
        return {
            "HORA_DATABASE_URL": self._services.database_url,
            "HORA_BROKER_URL": self._services.broker_url,
            "HORA_DATASETS_DIR": str(self.folder / "datasets"),
        }

    def _home(self, name: str) -> Path:
        return (self.folder / name).resolve()

    def _start_api(self, name: str, version: Version, end: ExitStack) -> Service:
        with socket.socket() as probe:
            probe.bind((_ADDRESS, 0))
            port = probe.getsockname()[1]
        self._home(name).mkdir()
        settings = {**self._settings(), "HORA_HOME": str(self._home(name)), "HORA_TOKEN": TOKEN}
        server = ("api",) if version == NEW else ("uvicorn", "--factory", "api.main:create_app")  # both are supported
        arguments = ("-m", *server, "--host", _ADDRESS, "--port", str(port))
        self._processes[name] = version.start(*arguments, settings=settings, log=self._home(name) / "api.log")
        api = end.enter_context(Service(f"http://{_ADDRESS}:{port}", TOKEN, timeout_s=20))
        until(lambda: _is_ready(api), what=f"{name}")
        return api

    def _start_worker(self, host: str, version: Version) -> None:
        self._home(host).mkdir(exist_ok=True)
        settings: Mapping[str, str] = {
            **self._settings(), "HORA_HOME": str(self._home(host)), "HORA_HOST_NAME": host, "HORA_SLOTS": "2",
        }  # fmt: skip
        log = self._home(host) / "worker.log"
        self._processes[host] = version.start("-m", "worker", settings=settings, log=log)
        until(lambda: "worker ready" in log.read_text(), what=f"the worker of {host}")

    def _replace_worker(self, host: str) -> None:
        self._stop(host)
        log = self._home(host) / "worker.log"
        log.rename(log.with_name("old-worker.log"))
        self._start_worker(host, NEW)

    def _stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        process.wait(60)

    def _stop_all(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(60)
        for process in processes_of(*map(self._home, HOSTS)):
            process.process_id.signal(signal.SIGKILL)


def _is_ready(api: Service) -> bool:
    try:
        return api.is_ready()
    except HoraError:
        return False


def _ended(api: Service, job_id: str) -> Json | None:
    job = api.job(job_id)
    return job if job["ended_at"] is not None else None


def _last_epoch(series: list[Json]) -> int:
    return int(max((x for curve in series for x in curve["x"]), default=0))
