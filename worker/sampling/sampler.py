"""The sampler: a thread of the worker that reads the metrics of the GPUs, the ranks and the host once a second.

There is one sampler per host, not one per rank. The reading of a slot is stored under the attempt that holds the slot.
The transaction keeps this attempt from ending, so a job that has ended gets no more rows. While the database is away,
the newest readings are kept with the attempts that held the slots. When it is back, they are stored for the attempts
that still hold their slots. A host without GPUs on which nothing runs also stores its readings together, every few
seconds: to store one costs ten times as much as to take it.

Times are by the host's clock, as in the ranks' records. Rates and shares are measured by the steady clock.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import BigInteger, ColumnElement, Integer, bindparam, case, exists, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, Slot
from jobs.runtime.processes import mark_of
from jobs.scheduling import registration
from jobs.scheduling.registration import GpuState
from jobs.telemetry.ingest import HostSampleRow, SampleRow, store_host_samples, store_samples
from jobs.telemetry.sampled_metrics import GPU_METRICS
from worker.host.gpu_health import XidWatch, check_memory
from worker.host.gpus import NO_GPU, Gpu, GpuReading
from worker.periodic import PeriodicThread, Watched
from worker.sampling.host_readings import HostReading, HostReadings
from worker.sampling.rank_processes import RankKey, RankProcesses, RankReading
from worker.sampling.rank_steps import NO_STEP, RankOnHost, RankSteps, Step

_MOST_KEPT = 60  # readings, while the database is away: without it, attempts themselves last only for a lease
_AWAY_S = 5.0  # pause between two tries then: each try may take as long
_REPORTS_OF_CHANGE = 3  # in as many samples: a row that is locked is left out


@dataclass(frozen=True)
class LeasedSlot:
    """A slot of this host, and the live attempt that holds it."""

    index: int
    uuid: str | None
    number: int  # in its attempt
    on_host: RankOnHost  # the rank that runs on it
    progress: Step  # of the job, as it is stored
    slots_of_rank: int = 1

    @property
    def key(self) -> RankKey:
        """The key of its rank's processes."""
        return mark_of(self.on_host.job_id, self.on_host.attempt), self.on_host.rank


@dataclass(frozen=True)
class Reading:
    """Everything that was read at one moment."""

    at: datetime
    gpus: Mapping[str, GpuReading]  # by UUID
    ranks: Mapping[RankKey, RankReading]
    steps: Mapping[RankOnHost, Step]
    host: HostReading


class Sampler(PeriodicThread):
    """Samples until it is stopped."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        host: str,
        gpus: Sequence[Gpu],
        runs_dir: Path,
        period_s: float,
        report_period_s: float,
    ) -> None:
        super().__init__("sampler", period_s=period_s)
        self._sessions = sessions
        self._host = host
        self._gpus = gpus
        self._report_period_s = report_period_s
        self._ranks = RankProcesses()
        self._steps = RankSteps(runs_dir, host=host)
        self._host_readings = HostReadings()
        self._leased: Sequence[LeasedSlot] = ()  # as of the database's last answer
        self._unstored: deque[tuple[Reading, Sequence[LeasedSlot]]] = deque(maxlen=_MOST_KEPT)
        self._reported_at = self._stored_at = self._away_until = float("-inf")
        self._has_found_leases = False  # the lookout did, since the rows were last read
        self._xids = XidWatch(gpus) if gpus else None
        self._free_gpus: frozenset[str] = frozenset()  # as of the database's last answer
        self._health = {gpu.uuid: (gpu.unhealthy, False) for gpu in gpus}  # as it was last reported
        self._reports_left = 0

    def pause_s(self) -> float:
        """The time until the next multiple of the period. A missed sample is not repeated."""
        return self._period_s - time.monotonic() % self._period_s

    def watched(self) -> Sequence[Watched]:
        """Slots here that attempts hold."""
        return [Watched(are_leased(self._host), self._found_leases)]

    def rest_s(self) -> float:
        """None: it takes every sample, and only stores fewer."""
        return 0.0

    def _found_leases(self) -> None:
        self._has_found_leases = True

    def once(self) -> None:
        """Take one sample, and store it at once or with the next ones."""
        if self._nobody_waits():
            self._unstored.append((self._read(), self._leased))
        else:
            self.sample()

    def _nobody_waits(self) -> bool:
        """Whether a reading can be stored later: it is of no attempt, and of no GPU that others may use meanwhile."""
        is_needed = self._gpus or self._leased or self._has_found_leases
        return self.is_watched and not is_needed and time.monotonic() - self._stored_at < self._report_period_s

    def sample(self) -> int:
        """Read everything once and store the samples of the host and of leased slots. Returns how many rows slots got.

        Raises `OperationalError` if the database is away. The reading is then kept.
        """
        reading = self._read()
        self._check_gpus()
        if time.monotonic() < self._away_until:
            self._unstored.append((reading, self._leased))
            self._free_gpus = frozenset()
            return 0
        try:
            return self._store(reading)
        except OperationalError:
            self._away_until = time.monotonic() + _AWAY_S
            self._unstored.append((reading, self._leased))
            raise
        except Exception:
            self._unstored.clear()  # readings that cannot be stored must not block later ones
            raise

    def _read(self) -> Reading:
        return Reading(
            at=datetime.now(UTC),
            gpus={gpu.uuid: gpu.read() for gpu in self._gpus},
            ranks=self._ranks.read({slot.key for slot in self._leased}),
            steps=self._steps.read([slot.on_host for slot in self._leased]),
            host=self._host_readings.read(),
        )

    def _check_gpus(self) -> None:
        """Look for errors of the GPUs: those that the driver reported, and once a report those of their memory."""
        if self._xids is not None:
            self._xids.take()
        if self._report_is_due():
            for gpu in self._gpus:
                check_memory(gpu)

    def _report_is_due(self) -> bool:
        return time.monotonic() - self._reported_at >= self._report_period_s

    def _store(self, reading: Reading) -> int:
        self._has_found_leases = False
        with self._sessions.begin() as session:
            self._leased = leased_slots(session, self._host)
            held = {(slot.on_host, slot.index) for slot in self._leased}
            rows = []
            for earlier, leased in self._unstored:
                rows += sample_rows(
                    self._host, earlier, [slot for slot in leased if (slot.on_host, slot.index) in held]
                )
            rows += sample_rows(self._host, reading, self._leased)
            store_samples(session, rows)
            readings = [*(earlier for earlier, _ in self._unstored), reading]
            store_host_samples(session, [HostSampleRow(self._host, one.at, one.host._asdict()) for one in readings])
            reported_at = self._report_gpus(session, reading)
            self._free_gpus = registration.free_gpus(session, self._host) if self._gpus else frozenset()
        self._unstored.clear()
        self._reported_at, self._stored_at = reported_at, time.monotonic()
        return len(rows)

    def _report_gpus(self, session: Session, reading: Reading) -> float:
        """Store the readings of the slots' GPUs if it is time, or if a job may now get other GPUs than before."""
        if not reading.gpus:
            return self._reported_at
        states = {gpu.uuid: self._state_of(gpu, reading) for gpu in self._gpus}
        health = {uuid: (state.unhealthy, state.in_use) for uuid, state in states.items()}
        if health != self._health:
            self._health, self._reports_left = health, _REPORTS_OF_CHANGE
        if not self._reports_left and not self._report_is_due():
            return self._reported_at
        self._reports_left = max(0, self._reports_left - 1)
        registration.store_readings(session, self._host, states)
        return time.monotonic()

    def _state_of(self, gpu: Gpu, reading: Reading) -> GpuState:
        """A GPU that was free before it was read, and on which a process computes, is in use by others."""
        gpu_reading = reading.gpus[gpu.uuid]
        return GpuState(
            reading={"at": reading.at.isoformat(), **asdict(gpu_reading)},
            unhealthy=gpu.unhealthy,
            in_use=bool(gpu_reading.processes) and gpu.uuid in self._free_gpus,
        )


def are_leased(host: str) -> ColumnElement[bool]:
    """Whether live attempts hold slots of a host, as SQL. The database can only begin with these slots."""
    is_live = select(Attempt.ended_at.is_(None)).where(Attempt.id == Slot.attempt_id).scalar_subquery()
    return exists().where(Slot.host == host, is_live)


def leased_slots(session: Session, host: str) -> list[LeasedSlot]:
    """The slots of a host that live attempts hold. None of these attempts ends before the caller's commit."""
    return [
        LeasedSlot(
            index, uuid, slot, RankOnHost(job_id, number, slot // of_rank, lead == host), Step(step, epoch), of_rank
        )
        for index, uuid, slot, of_rank, job_id, number, lead, step, epoch in session.execute(_LEASED, {"name": host})
    ]


_LEASED = (
    select(
        Slot.index,
        Slot.uuid,
        Slot.rank,
        case((Job.spec["strategy"].astext == "mirrored", Attempt.gpus), else_=1),
        Attempt.job_id,
        Attempt.number,
        Attempt.host,
        Job.progress["step"].astext.cast(BigInteger),
        Job.progress["epoch"].astext.cast(Integer),
    )
    .join(Attempt, Attempt.id == Slot.attempt_id)
    .join(Job, Job.id == Attempt.job_id)
    .where(Slot.host == bindparam("name"), Attempt.ended_at.is_(None))
    .with_for_update(read=True, of=Attempt)
)


def sample_rows(host: str, reading: Reading, leased: Sequence[LeasedSlot]) -> list[SampleRow]:
    """The rows of a reading for the slots that were leased at that time."""
    rows = []
    for slot in leased:
        on_host, gpu = slot.on_host, reading.gpus.get(slot.uuid or "", NO_GPU)
        step = reading.steps.get(on_host, NO_STEP)
        rank = reading.ranks.get(slot.key)
        rows.append(
            SampleRow(
                job_id=on_host.job_id,
                attempt=on_host.attempt,
                rank=slot.number,
                at=reading.at,
                host=host,
                slot=slot.index,
                step=(slot.progress if step is NO_STEP else step).step,
                epoch=(slot.progress if step is NO_STEP else step).epoch,
                values={name: getattr(gpu, metric.reading_name) for name, metric in GPU_METRICS.items()}
                | ({} if rank is None else vars(rank.of_slot(slot.slots_of_rank))),
            )
        )
    return rows
