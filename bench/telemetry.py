"""The points and samples that `bench.series` stores, made and stored by the code that workers use."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import psycopg
from sqlalchemy import insert
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import Status
from jobs.telemetry.ingest import HostSampleRow, MetricRow, store_host_samples, store_samples
from worker.host.gpus import GpuReading
from worker.sampling.host_readings import HostReading
from worker.sampling.rank_processes import RankReading
from worker.sampling.rank_steps import Step
from worker.sampling.sampler import Reading, leased_slots, sample_rows

START = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("loss", "accuracy", "step_time_s", "data_wait_s", "allreduce_s")  # of every step of a rank
_SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001}


def points(job_id: str, first: int, last: int) -> list[MetricRow]:
    """Every metric of these steps of one rank."""
    return [
        MetricRow(job_id, name, 0, step, 1, step // 1000 + 1, at, step * 7919 % 1000 / 1000)
        for step in range(first, last + 1)
        for at in (START + timedelta(seconds=step / 10),)
        for name in NAMES
    ]


def as_text(rows: Sequence[MetricRow]) -> bytes:
    """The rows as PostgreSQL's own tools would send them."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()


def a_job(session: Session, job_id: str, *, gpus: int) -> int:
    """Add a job with a live attempt. Returns the attempt's id."""
    spec = spec_from({**_SPEC, "gpus": gpus})
    plan = resolve_plan(spec, None).model_dump(mode="json") | {"steps_per_epoch": 1000}
    session.add(
        Job(
            id=job_id, name="telemetry", owner="me", status=Status.RUNNING, gpus=gpus, priority=50, labels={},
            spec=spec.model_dump(mode="json"), plan=plan, started_at=START, progress={"step": 1000, "epoch": 1},
            attempt=1,
        )
    )  # fmt: skip
    session.flush()
    attempt = Attempt(job_id=job_id, number=1, host="h", gpus=gpus, lease_expires_at=START, started_at=START)
    session.add(attempt)
    session.flush()
    return attempt.id


class Cluster:
    """Hosts whose GPUs are all leased. `sample` does what their samplers would do in a second."""

    def __init__(self, sessions: Sessions, *, hosts: int, slots: int, slots_of_a_job: int) -> None:
        self._sessions = sessions
        self._hosts = [f"h{number:05}" for number in range(hosts)]
        self._gpus = {host: {f"{host}-{index}": _GPU for index in range(slots)} for host in self._hosts}
        with sessions.begin() as session:
            session.execute(insert(Host), [{"name": host, "info": {}} for host in self._hosts])
            every_slot = [(host, index) for host in self._hosts for index in range(slots)]
            rows = []
            for first in range(0, len(every_slot), slots_of_a_job):
                slots_of_job = every_slot[first : first + slots_of_a_job]
                attempt_id = a_job(session, f"s{first:09}", gpus=len(slots_of_job))
                rows += [
                    {
                        "host": host, "index": index, "kind": "gpu", "name": "a GPU", "uuid": f"{host}-{index}",
                        "attempt_id": attempt_id, "rank": rank,
                    }
                    for rank, (host, index) in enumerate(slots_of_job)
                ]  # fmt: skip
            session.execute(insert(Slot), rows)

    def sample(self, second: int) -> int:
        """Store one second of all hosts, each in its own transaction. Returns the number of rows of slots."""
        at, count = START + timedelta(seconds=second), 0
        for host in self._hosts:
            with self._sessions.begin() as session:
                leased = leased_slots(session, host)
                reading = Reading(
                    at=at, gpus=self._gpus[host], ranks={slot.key: _RANK for slot in leased},
                    steps={slot.on_host: Step(1000 + second, 1) for slot in leased}, host=_HOST,
                )  # fmt: skip
                rows = sample_rows(host, reading, leased)
                store_samples(session, rows)
                store_host_samples(session, [HostSampleRow(host, at, reading.host._asdict())])
                count += len(rows)
        return count


_GPU = GpuReading(97.25, 12_884_901_888, 301.5, 64.0, 1410.0, 4, 1)
_RANK = RankReading(104.5, 3_221_225_472)
_HOST = HostReading(42.5, 68_719_476_736, 1.25e6, 1.5e6, 2.5e8, 1.25e5)


def fill(url: str, *, rows: int) -> None:
    """Store `rows` points of old jobs, in blocks, and as many samples. Update the statistics of both tables."""
    job_points, job_samples = 100_000, 10_000
    blocks = f"""
        INSERT INTO metric_blocks (job_id, name, rank, attempt, first_step, last_step, epochs, times, numbers)
        SELECT 'old' || job, 'loss', 0, 1, min(step), max(step), string_agg(int4send((step / 1000)::int), ''),
            string_agg(timestamptz_send('2029-01-01'::timestamptz + step * interval '0.1 s'), ''),
            string_agg(float8send(step * 7919 % 1000 / 1000.0), '')
        FROM generate_series(1, {rows // job_points}) job, generate_series(1, {job_points}) step
        GROUP BY job, step / 1024 ORDER BY step / 1024, job
    """  # noqa: S608 - numbers of our own
    samples = f"""
        INSERT INTO samples (job_id, attempt, rank, at, host, slot, step, epoch, gpu_percent, gpu_memory_bytes,
            gpu_power_w, gpu_temperature_c, gpu_sm_clock_mhz, gpu_throttle, gpu_processes, cpu_percent, memory_bytes)
        SELECT 'old' || job, 1, rank, '2029-01-01'::timestamptz + second * interval '1 s', 'h' || job, rank, second, 1,
            97.25, 12884901888, 301.5, 64, 1410, 4, 1, 104.5, 3221225472
        FROM generate_series(1, {job_samples // 10}) second, generate_series(1, {rows // job_samples}) job,
            generate_series(0, 9) rank
    """  # noqa: S608
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (blocks, samples, "VACUUM ANALYZE metric_blocks", "VACUUM ANALYZE samples", "CHECKPOINT"):
            connection.execute(statement.encode())
