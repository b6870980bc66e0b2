"""From a placed attempt to a running supervisor: directories, launch file, argv, environment, process.

The builders are pure; `launch` is the one impure call. Used by the `launch` task and by the agent's
reconciliation, whichever comes first: the claim in the database lets one of them through.
"""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from jobs.admission import weights_job
from jobs.database import Sessions
from jobs.leases import claim, end, record_supervisor, release
from jobs.processes import MARK, ProcessId, mark_of
from jobs.records import Launch, launch_file_name
from jobs.settings import Settings
from jobs.spec import InvalidSpec, Spec, spec_from
from jobs.states import EndReason
from jobs.store import Lease, get_job
from jobs.tables import Slot

_log = logging.getLogger(__name__)

# The command line of a rank shows its whole environment to every user of the host, and Horovod does not quote
# the keys: nothing goes in but what is named here.
_INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "KERAS_HOME")


@dataclass(frozen=True)
class AttemptPaths:
    """Where an attempt's files lie: below `HORA_HOME/runs/JOB`, with checkpoints and artifacts shared by attempts."""

    job_dir: Path
    number: int

    @property
    def root(self) -> Path:
        return self.job_dir / f"attempt-{self.number}"

    @property
    def launch_dir(self) -> Path:
        return self.root / "launch"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def launcher_log(self) -> Path:
        return self.logs / "launcher.log"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def stop_file(self) -> Path:
        return self.root / "stop"

    @property
    def lease_file(self) -> Path:
        return self.root / "lease"

    @property
    def scratch(self) -> Path:
        return self.root / "tmp"

    @property
    def checkpoints(self) -> Path:
        return self.job_dir / "checkpoints"

    @property
    def artifacts(self) -> Path:
        return self.job_dir / "artifacts"

    def create(self) -> None:
        """Make every folder."""
        for folder in (self.launch_dir, self.records, self.logs, self.scratch, self.checkpoints, self.artifacts):
            folder.mkdir(parents=True, exist_ok=True)


def paths_of(runs_dir: Path, job_id: str, number: int) -> AttemptPaths:
    """The paths of attempt `number` of a job."""
    return AttemptPaths(runs_dir / job_id, number)


def job_weights_path(runs_dir: Path, spec: Spec) -> str | None:
    """Where the weights lie that the spec starts from, if they are another job's."""
    job_id = weights_job(spec)
    return None if job_id is None else str(runs_dir / job_id / "artifacts" / "model.weights.h5")


def launch_of(
    lease: Lease,
    spec: Spec,
    paths: AttemptPaths,
    settings: Settings,
    *,
    gpus: int,
    gpu_uuids: list[str],
    threads_per_rank: int,
) -> Launch:
    """All that the ranks of an attempt are told."""
    return Launch(
        job_id=lease.job_id,
        attempt=lease.number,
        spec=spec,
        gpus=gpus,
        device="gpu" if gpu_uuids else "cpu",
        threads_per_rank=threads_per_rank,
        gpu_uuids=gpu_uuids,
        data_roots=settings.data_root_list,
        cache_dir=str(settings.home / "cache"),
        weights_dir=str(settings.home / "weights"),
        job_weights=job_weights_path(settings.runs_dir, spec),
        models=settings.model_list,
        records_dir=str(paths.records),
        logs_dir=str(paths.logs),
        checkpoints_dir=str(paths.checkpoints),
        artifacts_dir=str(paths.artifacts),
        stop_path=str(paths.stop_file),
        lease_path=str(paths.lease_file),
    )


def horovodrun_argv(*, ranks: int, launch_dir: Path, python: str = sys.executable) -> list[str]:
    """The command that starts `ranks` ranks of the trainer on this host, through the quick shim."""
    return [
        python, "-m", "worker.horovodrun",
        "-np", str(ranks), "-H", f"localhost:{ranks}",
        "--gloo", "--disable-cache", "--network-interfaces", "lo",
        python, "-m", "trainer", str(launch_dir),
    ]  # fmt: skip


def rank_environment(
    inherited: Mapping[str, str], *, mark: str, home: Path, scratch: Path, threads: int
) -> dict[str, str]:
    """All that the launcher and its ranks are given as environment; no secret is among it."""
    return {
        **{key: inherited[key] for key in _INHERITED if key in inherited},
        MARK: mark,
        "HORA_HOME": str(home),
        "HOME": str(home),
        "TMPDIR": str(scratch),  # what ranks leave there goes with the attempt
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",  # each rank sets its own host's, from its launch file
    }


@dataclass(frozen=True)
class SupervisorOrder:
    """What a supervisor reads from its standard input; the token must not be seen in a process list."""

    attempt_id: int
    token: str
    job_id: str
    number: int
    argv: list[str]
    environment: dict[str, str]
    launcher_log: str

    @property
    def lease(self) -> Lease:
        """The lease this supervisor holds."""
        return Lease(self.attempt_id, self.token, self.job_id, self.number)


class Launcher:
    """Starts supervisors and keeps their handles, so that the ended ones leave no zombie."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._settings = settings
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()  # tasks and the agent come from threads of their own

    def launch(self, attempt_id: int) -> bool:
        """Claim the attempt and start its supervisor; False where another did or it has ended."""
        with self._sessions.begin() as session:
            lease = claim(session, attempt_id, lease_s=self._settings.lease_s)
            if lease is None:
                return False
            if get_job(session, lease.job_id).cancel_requested_at is not None:
                end(session, lease, EndReason.CANCELLED)
                release(session, attempt_id)
                return False
        try:
            process = self._start_supervisor(self._order(lease))
        except (OSError, InvalidSpec) as error:
            reason = EndReason.LAUNCH_FAILED if isinstance(error, OSError) else EndReason.INTERNAL_ERROR
            with self._sessions.begin() as session:
                end(session, lease, reason, error=f"the supervisor did not start: {error}")
                release(session, attempt_id)
            return False
        with self._sessions.begin() as session:
            record_supervisor(session, lease, ProcessId.of(process.pid) or ProcessId(process.pid, 0))
        return True

    def reap(self) -> None:
        """Forget the supervisors that have ended."""
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]

    def _order(self, lease: Lease) -> SupervisorOrder:
        with self._sessions() as session:
            job = get_job(session, lease.job_id)
            slots = session.scalars(select(Slot).where(Slot.attempt_id == lease.attempt_id).order_by(Slot.rank)).all()
        paths = paths_of(self._settings.runs_dir, lease.job_id, lease.number)
        paths.create()
        spec = spec_from(job.spec)
        gpu_uuids = [slot.uuid for slot in slots if slot.uuid is not None]
        threads = 0 if gpu_uuids else max(1, (os.cpu_count() or 1) // max(len(slots), self._settings.cpu_slots))
        launch = launch_of(
            lease, spec, paths, self._settings, gpus=len(slots), gpu_uuids=gpu_uuids, threads_per_rank=threads
        )
        (paths.launch_dir / launch_file_name()).write_text(launch.model_dump_json(indent=2))
        return SupervisorOrder(
            attempt_id=lease.attempt_id,
            token=lease.token,
            job_id=lease.job_id,
            number=lease.number,
            argv=horovodrun_argv(ranks=len(slots), launch_dir=paths.launch_dir),
            environment=rank_environment(
                os.environ,
                mark=mark_of(lease.job_id, lease.number),
                home=self._settings.home,
                scratch=paths.scratch,
                threads=threads,
            ),
            launcher_log=str(paths.launcher_log),
        )

    def _start_supervisor(self, order: SupervisorOrder) -> subprocess.Popen[bytes]:
        log = paths_of(self._settings.runs_dir, order.job_id, order.number).supervisor_log
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker.supervisor", str(order.attempt_id)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a restarted worker leaves it alone
            )
        with self._lock:
            self._children.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps(order.__dict__).encode())
        process.stdin.close()
        _log.info("supervisor %d started for attempt %d", process.pid, order.attempt_id)
        return process
