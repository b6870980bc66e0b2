"""Measures the cost of one sample a second: the real sampler, 8 GPUs of the NVML stub, 8 leased slots, PostgreSQL.

The sampler runs in a process of its own (`python -m bench.sampler`), so only its processor time is counted. That of the
database is printed separately. Each rank is a process that appends a step to its records ten times a second.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median

from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

import migrations
from bench.databases import processor_s
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Sample
from jobs.lifecycle.store import Lease
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.records import StepEnded, rank_records_name
from jobs.model.spec import spec_from
from jobs.runtime.processes import MARK, mark_of
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.registration import SlotInfo
from worker.attempt.paths import paths_of
from worker.host.gpus import find_gpus
from worker.sampling.sampler import Sampler

GPUS, SAMPLES = 8, 60
TARGET_PERCENT = 0.5  # of a core
_HOST = "bench"
_STUB = Path(__file__).parents[1] / "tests/integration/worker/nvml_stub.c"
_WARM_UP = 5  # samples, while statements are prepared and processes found
_RANK = """
import sys, time
with open(sys.argv[1], "a") as file:
    while True:
        file.write(sys.argv[2] + "\\n")
        file.flush()
        time.sleep(0.1)
"""


def main(*, rounds: int) -> None:
    """Measure and print."""
    console = Console()
    measured = []
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, parts=("database",)) as stack:
            migrations.upgrade(stack.database_url)
            sessions = sessions_for(engine_for(stack.database_url))
            lease = _leased(sessions)
            with _ranks(folder / "runs", lease):
                for number in range(rounds):
                    console.print(f"sampler: round {number + 1} of {rounds}", style="dim")
                    measured.append(_measured(stack, folder, sessions))
    table = Table("", "share of a core", "largest", "target", title=f"A sample a second of {GPUS} GPUs and ranks")
    for title, column, target in (("sampler", 0, f"{TARGET_PERCENT} %"), ("PostgreSQL", 1, "")):
        shares = [percents[column] for percents in measured]
        table.add_row(title, f"{median(shares):.2f} %", f"{max(shares):.2f} %", target)
    console.print(table)


def _leased(sessions: Sessions) -> Lease:
    """A host of 8 GPUs, and an attempt on all of them."""
    spec = spec_from({"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": GPUS})
    slots = [SlotInfo(index, "gpu", "a GPU", f"GPU-{index:02}", 150 << 30) for index in range(GPUS)]
    with sessions.begin() as session:
        registration.register(session, _HOST, {}, slots)
        job = write_job(session, spec=spec, plan=resolve_plan(spec, None), owner="me")
    with sessions.begin() as session:
        [lease] = placing.place(session, [Placement(job.id, (Share(_HOST, tuple(range(GPUS))),))], lease_s=86_400)
    return lease


@contextmanager
def _ranks(runs_dir: Path, lease: Lease) -> Iterator[None]:
    """A process for each rank, which writes its records."""
    paths = paths_of(runs_dir, lease.job_id, lease.number)
    paths.create()
    step = StepEnded(
        at=time.time(), step=1234, epoch=5, step_time_s=0.1, data_wait_s=0.01, allreduce_s=0.02,
        samples_per_s=5120.0, metrics={"loss": 0.25, "accuracy": 0.9},
    )  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", _RANK, str(paths.records / rank_records_name(rank)), step.model_dump_json()],
            env={MARK: mark_of(lease.job_id, lease.number), "HOROVOD_RANK": str(rank)},
        )
        for rank in range(GPUS)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _measured(stack: Stack, folder: Path, sessions: Sessions) -> tuple[float, float]:
    """Percent of a core that the sampler and the database use. Raises RuntimeError if samples are missing."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, _STUB], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "NVML_STUB": "w" * GPUS}
    before = _stored_samples(sessions)
    database = processor_s(stack)
    argv = [sys.executable, "-m", "bench.sampler", stack.database_url, str(folder / "runs")]
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    used_s, elapsed_s = map(float, done.stdout.split())
    spent = processor_s(stack) - database
    if _stored_samples(sessions) - before < GPUS * SAMPLES:
        raise RuntimeError("not every sample was stored")
    return 100 * used_s / elapsed_s, 100 * spent / (elapsed_s + _WARM_UP)


def _stored_samples(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(Sample).where(Sample.gpu_percent.is_not(None))) or 0


def _sample(database_url: str, runs_dir: Path) -> None:
    """Sample for a minute. Print the used processor time, with that of child processes, and the time that passed."""
    sessions = sessions_for(engine_for(database_url))
    sampler = Sampler(sessions, host=_HOST, gpus=find_gpus(), runs_dir=runs_dir, period_s=1.0, report_period_s=5.0)
    sampler.start()
    time.sleep(_WARM_UP)
    used_s, begun = _processor_s(), time.monotonic()
    time.sleep(SAMPLES + 0.5)
    used_s, elapsed_s = _processor_s() - used_s, time.monotonic() - begun
    sampler.stop()
    sampler.join()
    print(used_s, elapsed_s)


def _processor_s() -> float:
    usages = [getrusage(whose) for whose in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    _sample(sys.argv[1], Path(sys.argv[2]))
