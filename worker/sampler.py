"""The sampler: once a second, what every leased slot of this host does. A thread of the host's agent.

One sampler a host, never one a rank: GPUs through NVML, and each rank's CPU and memory from /proc. A sample is
stored under the lease that holds the slot at that moment, with the newest step of the job.
"""

import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
from sqlalchemy import BigInteger, select
from sqlalchemy.exc import OperationalError

from jobs.database import Sessions
from jobs.ingest import SampleRow, store_samples
from jobs.processes import MARK, environment, mark_of, pids
from jobs.tables import Attempt, Job, Slot
from worker.gpus import Gpu, GpuReading, read

_log = logging.getLogger(__name__)
_SETTLED_S = 5.0  # after which a process does not become another program any more


@dataclass(frozen=True)
class RankReading:
    """CPU (percent of one core, since the last reading) and resident memory of a rank's processes."""

    cpu_percent: float | None
    memory_bytes: int


class RankProcesses:
    """The ranks that run on this host, by (mark, rank), found by their environment."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[str, int]] = {}
        self._strangers: set[int] = set()
        self._first_seen: dict[int, float] = {}  # of those that may still become a rank
        self._cpu_s: dict[int, float] = {}
        self._read_at = time.monotonic()

    def read(self) -> dict[tuple[str, int], RankReading]:
        """One reading of every rank. The first reading of a process has no CPU share yet."""
        self._find()
        now = time.monotonic()
        elapsed_s, self._read_at = now - self._read_at, now
        readings: dict[tuple[str, int], RankReading] = {}
        cpu_s: dict[int, float] = {}
        for pid, key in self._ranks.items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                continue
            cpu_s[pid] = times.user + times.system
            used = cpu_s[pid] - self._cpu_s[pid] if pid in self._cpu_s else None
            percent = None if used is None else 100 * used / elapsed_s
            readings[key] = _sum(readings.get(key), RankReading(percent, memory))
        self._cpu_s = cpu_s
        return readings

    def _find(self) -> None:
        """Look at the environment of processes not seen before; those of an attempt may still become a rank.

        So may a young one without a mark: over ssh a rank begins as a shell that has nothing of an attempt.
        """
        present, now = set(pids()), time.monotonic()
        self._first_seen = {pid: seen for pid, seen in self._first_seen.items() if pid in present}
        self._ranks = {pid: key for pid, key in self._ranks.items() if pid in present}
        self._strangers &= present
        for pid in present - self._ranks.keys() - self._strangers:
            variables = dict(item.split(b"=", 1) for item in environment(pid) if b"=" in item)
            if not variables:  # in the middle of an exec: the next look will tell
                continue
            mark, rank = variables.get(MARK.encode()), variables.get(b"HOROVOD_RANK")
            if mark is None:
                if now - self._first_seen.setdefault(pid, now) > _SETTLED_S:
                    self._strangers.add(pid)
                    del self._first_seen[pid]
            elif rank is not None:
                self._ranks[pid] = (mark.decode(), int(rank))


def _sum(so_far: RankReading | None, more: RankReading) -> RankReading:
    if so_far is None:
        return more
    shares = [share for share in (so_far.cpu_percent, more.cpu_percent) if share is not None]
    return RankReading(sum(shares) if shares else None, so_far.memory_bytes + more.memory_bytes)


class Sampler(threading.Thread):
    """Samples until it is stopped."""

    def __init__(self, sessions: Sessions, *, host: str, gpus: list[Gpu], period_s: float) -> None:
        super().__init__(name="sampler", daemon=True)
        self._sessions = sessions
        self._host = host
        self._gpus = gpus
        self._period_s = period_s
        self._ranks = RankProcesses()
        self._stopped = threading.Event()

    def run(self) -> None:
        """Sample at every multiple of the period; a late sample is not made up for."""
        while not self._stopped.wait(self._period_s - time.monotonic() % self._period_s):
            try:
                self.sample()
            except OperationalError as error:
                _log.warning("samples not stored, the database is away: %s", error.orig)
            except Exception:
                _log.exception("a sample failed; the next one is tried")

    def stop(self) -> None:
        """End after the sample at hand."""
        self._stopped.set()

    def sample(self) -> int:
        """Read everything once and store the rows of leased slots; returns how many there were."""
        at = datetime.now(UTC)
        gpus = {gpu.uuid: read(gpu) for gpu in self._gpus}
        ranks = self._ranks.read()
        with self._sessions.begin() as session:
            leased = session.execute(
                select(Slot.index, Slot.uuid, Slot.rank, Attempt.job_id, Attempt.number, _STEP)
                .join(Attempt, Attempt.id == Slot.attempt_id)
                .join(Job, Job.id == Attempt.job_id)
                .where(Slot.host == self._host, Attempt.ended_at.is_(None))
                .with_for_update(read=True, of=Attempt)
            ).all()
            rows = []
            for index, uuid, rank, job_id, number, step in leased:
                gpu = gpus.get(uuid, _NO_GPU)
                process = ranks.get((mark_of(job_id, number), rank))
                rows.append(
                    SampleRow(
                        job_id=job_id,
                        attempt=number,
                        rank=rank,
                        at=at,
                        host=self._host,
                        slot=index,
                        step=step,
                        epoch=None,
                        gpu_percent=gpu.percent,
                        gpu_memory_bytes=gpu.memory_bytes,
                        gpu_power_w=gpu.power_w,
                        gpu_temperature_c=gpu.temperature_c,
                        gpu_sm_clock_mhz=gpu.sm_clock_mhz,
                        gpu_throttle=None,
                        gpu_processes=None,
                        cpu_percent=process.cpu_percent if process else None,
                        memory_bytes=process.memory_bytes if process else None,
                    )
                )
            store_samples(session, rows)
        return len(rows)


_NO_GPU = GpuReading()
_STEP = Job.progress["step"].astext.cast(BigInteger)
