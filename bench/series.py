"""How fast series are stored and read, beside PostgreSQL's own COPY and beside MLflow, on one embedded PostgreSQL.

MLflow runs in an environment of its own (`.venv-mlflow`, which `make bench` sets up; without it its rows are left out)
against a database of its own on the same server. What is measured in turns is compared within each turn.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

import migrations
from bench.telemetry import NAMES, Cluster, a_job, as_text, fill, points, processor_s
from hora.stack import Stack
from jobs.database import Sessions, engine_for, sessions_for
from jobs.ingest import MetricRow, store_metrics
from jobs.sample_series import utilization
from jobs.series import metrics
from jobs.tables import Job

STEPS, KEPT = 100_000, 500  # of the series that is read
BATCH_STEPS = 1000  # steps of a rank in one transaction
CLUSTERS = ((125, 80), (1250, 8))  # hosts and slots of each: 1,000 jobs of 10 slots
SECONDS = 10
FILLED = 10_000_000
_MLFLOW = Path(".venv-mlflow/bin/python")
_READS = 15
_COLUMNS = ", ".join(MetricRow._fields)
_numbers = count(1)


@dataclass
class Report:
    """The table that is printed."""

    table: Table = field(
        default_factory=lambda: Table("", "measured", "beside it", "ratio", "target", title="Series", show_lines=True)
    )

    def add(self, what: str, own: str, other: str, ratios: Sequence[float], target: str) -> None:
        """One line; of several ratios the median, and their range."""
        text = f"{median(ratios):.3g}"
        if len(ratios) > 1:
            text += f" ({min(ratios):.3g} to {max(ratios):.3g})"
        self.table.add_row(what, own, other, text, target)


def main(*, rounds: int) -> None:
    """Measure and print."""
    console, report = Console(), Report()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, parts=("database", "broker", "migrations", "api")) as stack:
            own = sessions_for(engine_for(stack.database_url))
            _beside_others(report, stack, own, rounds, console)
            for hosts, slots in CLUSTERS:
                console.print(f"series: {hosts} hosts", style="dim")
                _taking_in(report, stack, hosts, slots)
            console.print(f"series: {FILLED:,} rows", style="dim")
            _at_length(report, stack, console)
    console.print(report.table)


def _beside_others(report: Report, stack: Stack, sessions: Sessions, rounds: int, console: Console) -> None:
    stored: list[tuple[float, float, float]] = []  # rows a second: ours, COPY's, MLflow's
    read: list[tuple[float, float]] = []  # seconds: ours, MLflow's
    asked: list[tuple[float, float]] = []
    before = _resident(stack)
    with _mlflow(stack) as mlflow:
        for number in range(rounds):
            console.print(f"series: round {number + 1} of {rounds}", style="dim")
            job_id = f"r{next(_numbers):011}"
            ours, copied = _stored(sessions, job_id), _copied(stack.database_url, job_id)
            theirs = STEPS / float(mlflow(f"store {STEPS}")) if mlflow else float("nan")
            stored.append((ours, copied, theirs))
            (store, rest) = mlflow(f"read {KEPT} {_READS}") if mlflow else ([float("nan")], [float("nan")])
            read.append((_spent_s(partial(_read, sessions, job_id)), median(store)))
            asked.append((_asked_s(stack, job_id), median(rest)))
    ours, copied, theirs = (median(rates) for rates in zip(*stored, strict=True))
    rate = f"{ours:,.0f} points/s"
    report.add(
        "store points", rate, f"COPY of the same text: {copied:,.0f}/s", [one / two for one, two, _ in stored], ">= 0.5"
    )
    if mlflow:
        report.add("", rate, f"MLflow log_batch: {theirs:,.0f}/s", [one / other for one, _, other in stored], ">= 10")
        for what, pairs, other in (
            (f"read {KEPT} of {STEPS:,} points", read, "MLflow's store"),
            ("the same over HTTP", asked, "MLflow over HTTP"),
        ):
            one_s, other_s = (median(times) for times in zip(*pairs, strict=True))
            ratios = [one / two for one, two in pairs]
            report.add(what, f"{1e3 * one_s:.1f} ms", f"{other}: {1e3 * other_s:.1f} ms", ratios, "<= 0.2")
    after = _resident(stack)
    report.add(
        "memory of the api", f"{after:.0f} MB", f"before reading: {before:.0f} MB", [after / 150], "<= 1: 150 MB"
    )


def _stored(sessions: Sessions, job_id: str) -> float:
    """Points a second, as an intake stores them: a batch a transaction."""
    batches = [points(job_id, first, first + BATCH_STEPS - 1) for first in range(1, STEPS + 1, BATCH_STEPS)]
    with sessions.begin() as session:
        a_job(session, job_id, gpus=1)
    begun = time.perf_counter()
    for rows in batches:
        with sessions.begin() as session:
            store_metrics(session, rows)
    return STEPS * len(NAMES) / (time.perf_counter() - begun)


def _copied(url: str, job_id: str) -> float:
    """Points a second of PostgreSQL alone: the same rows as ready-made text, into the same kind of table."""
    batches = [as_text(points(job_id, first, first + BATCH_STEPS - 1)) for first in range(1, STEPS + 1, BATCH_STEPS)]
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS copied")
        cursor.execute("CREATE TABLE copied (LIKE metric_points INCLUDING ALL)")
        begun = time.perf_counter()
        for text in batches:
            with cursor.copy(f"COPY copied ({_COLUMNS}) FROM STDIN".encode()) as copy:
                copy.write(text)
        spent_s = time.perf_counter() - begun
        cursor.execute("DROP TABLE copied")
    return STEPS * len(NAMES) / spent_s


def _read(sessions: Sessions, job_id: str) -> None:
    with sessions() as session:
        (loss,) = metrics(session, session.get_one(Job, job_id), names=["loss"], max_points=KEPT)
        assert len(loss.x) <= KEPT
        assert loss.x[-1] == STEPS


def _asked_s(stack: Stack, job_id: str) -> float:
    headers = {"Authorization": f"Bearer {stack.token}"}
    with httpx2.Client(base_url=stack.url, headers=headers) as client:
        query = {"name": "loss", "max_points": str(KEPT)}
        return _spent_s(lambda: client.get(f"/v1/jobs/{job_id}/metrics", params=query).raise_for_status())


def _spent_s(call: Callable[[], object]) -> float:
    """The median of some calls."""
    spent = []
    for _ in range(_READS):
        begun = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begun)
    return median(spent)


def _taking_in(report: Report, stack: Stack, hosts: int, slots: int) -> None:
    """The processor time of a second of a whole cluster's samples, of writers and database together."""
    with _database(stack) as (_, sessions):
        cluster = Cluster(sessions, hosts=hosts, slots=slots, slots_of_a_job=10)
        cluster.sample(0)
        before = processor_s(stack.pid_of("database"))
        rows = sum(cluster.sample(second) for second in range(1, SECONDS + 1))
        cores = (processor_s(stack.pid_of("database")) - before) / SECONDS
    what = f"take in {rows / SECONDS:,.0f} samples a second, of {hosts:,} hosts x {slots} slots"
    report.add(what, f"{cores:.2f} cores", "writers and database", [cores], "< 1")


def _at_length(report: Report, stack: Stack, console: Console) -> None:
    """The same work on tables that are nearly empty, and on those that have ten million rows."""
    with _database(stack) as (url, sessions):
        cluster = Cluster(sessions, hosts=10, slots=80, slots_of_a_job=10)
        cluster.sample(0)
        empty = _figures(sessions, cluster, first=1)
        fill(url, rows=FILLED)
        full = _figures(sessions, cluster, first=1000)
        for what, form, one, other in zip(
            ("store samples", "store points", "read a series of points", "read a job's samples"),
            ("{:,.0f}/s", "{:,.0f}/s", "{:.4f} s", "{:.4f} s"),
            full, empty, strict=True,
        ):  # fmt: skip
            slower = other / one if form.endswith("/s") else one / other
            report.add(f"{what}, {FILLED:,} rows there", form.format(one), form.format(other), [slower], "about 1")
        console.print(*_plans(url), sep="\n", style="dim")


def _figures(sessions: Sessions, cluster: Cluster, *, first: int) -> tuple[float, float, float, float]:
    """Samples and points stored a second, and the seconds that it takes to read a metric and a job's samples."""
    begun = time.perf_counter()
    samples = sum(cluster.sample(second) for second in range(first, first + 25)) / (time.perf_counter() - begun)
    job_id = f"r{next(_numbers):011}"
    stored = _stored(sessions, job_id)

    def sampled() -> None:
        with sessions() as session:
            utilization(session, session.get_one(Job, f"s{0:09}"), wanted=["gpu_percent"], max_points=KEPT)

    return samples, stored, _spent_s(lambda: _read(sessions, job_id)), _spent_s(sampled)


def _plans(url: str) -> Iterator[str]:
    """Which way the database goes to a series in the long tables."""
    queries = (
        "SELECT numbers FROM metric_blocks WHERE job_id = 'old7' AND name = 'loss' ORDER BY first_step",
        "SELECT string_agg(float8send(gpu_percent), '' ORDER BY at) FROM samples WHERE job_id = 'old7' GROUP BY rank",
    )
    with psycopg.connect(url, autocommit=True) as connection:
        for query in queries:
            yield query
            yield from (str(line) for (line,) in connection.execute(f"EXPLAIN {query}".encode()).fetchall())
        for table in ("metric_blocks", "samples"):
            size = connection.execute("SELECT pg_total_relation_size(%s)", [table]).fetchone()
            yield f"{table}: {size[0] / FILLED if size else 0:.0f} bytes for a point or sample"


def _resident(stack: Stack) -> float:
    return float(psutil.Process(stack.pid_of("api")).memory_info().rss) / 1e6


@contextmanager
def _mlflow(stack: Stack) -> Iterator[Callable[[str], Any] | None]:
    """Asks MLflow's process for something; None where its environment is not there."""
    if not _MLFLOW.exists():
        yield None
        return
    with _empty_database(stack) as url:
        script = str(Path(__file__).with_name("mlflow_side.py"))
        argv = [str(_MLFLOW), script, url.replace("postgresql:", "postgresql+psycopg:")]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None

            def ask(line: str) -> Any:
                print(line, file=process.stdin, flush=True)
                return json.loads(process.stdout.readline())  # type: ignore[union-attr]

            try:
                process.stdout.readline()
                yield ask
            finally:
                process.kill()


@contextmanager
def _database(stack: Stack) -> Iterator[tuple[str, Sessions]]:
    """A database of its own with all tables."""
    with _empty_database(stack) as url:
        migrations.upgrade(url)
        engine = engine_for(url)
        yield url, sessions_for(engine)
        engine.dispose()


@contextmanager
def _empty_database(stack: Stack) -> Iterator[str]:
    name = f"bench_{next(_numbers)}"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield stack.database_url.replace("/hora?", f"/{name}?")
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
