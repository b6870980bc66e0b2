"""Measures how fast series are stored and read, compared with PostgreSQL's own COPY and with MLflow.

All use one embedded PostgreSQL. MLflow runs in an environment of its own, `.venv-peers`, with a database of its own.
`make bench` sets the environment up. Without it MLflow's figures are missing. Hora and the others take turns, and each
turn has its own ratio.
"""

import json
import math
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

from bench.databases import analyze, database, empty_database, processor_s
from bench.telemetry import Cluster, a_job, as_text, fill, points
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Job
from jobs.telemetry.ingest import MetricRow, store_metrics
from jobs.telemetry.samples import utilization
from jobs.telemetry.series import metrics

STEPS, MAX_POINTS = 100_000, 500  # of the series that is read
BATCHES = (1000, 100, 20)  # metrics in one transaction: at most as many as MLflow takes
CLUSTERS = ((125, 80), (1000, 10), (1250, 8))  # hosts and slots of each: 1,000 jobs of 10 slots
SECONDS = 10
FILLED = 10_000_000
_MLFLOW = Path(".venv-peers/bin/python")
_READS = 15
Pair = tuple[float, float]  # Hora's, MLflow's
Triple = tuple[float, float, float]  # Hora's, COPY's, MLflow's
_COLUMNS = ", ".join(MetricRow._fields)
_numbers = count(1)


@dataclass
class Report:
    """The table that is printed."""

    table: Table = field(
        default_factory=lambda: Table("", "measured", "reference", "ratio", "target", title="Series", show_lines=True)
    )

    def add(self, title: str, own: str, other: str, ratios: Sequence[float], target: str) -> None:
        """Add a line, with the median of the ratios and their range."""
        text = f"{median(ratios):.3g}"
        if len(ratios) > 1:
            text += f" ({min(ratios):.3g} to {max(ratios):.3g})"
        self.table.add_row(title, own, other, text, target)


def main(*, rounds: int) -> None:
    """Measure and print."""
    console, report = Console(), Report()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, parts=("database", "broker", "migrations", "api")) as stack:
            sessions = sessions_for(engine_for(stack.database_url))
            _compared_with_others(report, stack, sessions, rounds, console)
            for hosts, slots in CLUSTERS:
                console.print(f"series: {hosts} hosts", style="dim")
                _ingest_cost(report, stack, hosts, slots)
            console.print(f"series: {FILLED:,} rows", style="dim")
            _in_long_tables(report, stack, console)
    console.print(report.table)


def _compared_with_others(report: Report, stack: Stack, sessions: Sessions, rounds: int, console: Console) -> None:
    rates_by_size: dict[int, list[Triple]] = {at_once: [] for at_once in BATCHES}  # points a second
    reads_s: list[Pair] = []  # seconds
    http_reads_s: list[Pair] = []
    before = _resident(stack)
    with _mlflow(stack) as mlflow:
        for number in range(rounds):
            for at_once in reversed(BATCHES):
                console.print(f"series: round {number + 1} of {rounds}, {at_once} at once", style="dim")
                job_id = f"r{next(_numbers):011}"
                batches = _batches(job_id, STEPS // 1000 * at_once, at_once)
                rates = _store_rate(sessions, job_id, batches), _copied(stack.database_url, batches)
                rates_by_size[at_once].append((*rates, mlflow.store(batches) if mlflow else math.nan))
            theirs = mlflow.read() if mlflow else (math.nan, math.nan)
            reads_s.append((_spent_s(partial(_read, sessions, job_id)), theirs[0]))
            http_reads_s.append((_http_read_s(stack, job_id), theirs[1]))
    for at_once, of_all in rates_by_size.items():
        _add_stored(report, at_once, of_all)
    _add_read(report, f"read {MAX_POINTS} of {STEPS:,} points", "MLflow's store", reads_s)
    _add_read(report, "the same over HTTP", "MLflow over HTTP", http_reads_s)
    after = _resident(stack)
    report.add(
        "memory of the api", f"{after:.0f} MB", f"before reading: {before:.0f} MB", [after / 150], "<= 1 (150 MB)"
    )


def _add_stored(report: Report, at_once: int, rates: Sequence[Triple]) -> None:
    ours, copied, theirs = (median(rates) for rates in zip(*rates, strict=True))
    title, rate = f"store points, {at_once} a transaction", f"{ours:,.0f}/s"
    report.add(title, rate, f"COPY of the same rows: {copied:,.0f}/s", [one / two for one, two, _ in rates], ">= 0.5")
    report.add(title, rate, f"MLflow's log_batch: {theirs:,.0f}/s", [one / other for one, _, other in rates], ">= 10")


def _add_read(report: Report, title: str, other: str, times: Sequence[Pair]) -> None:
    ours_s, theirs_s = (median(spent) for spent in zip(*times, strict=True))
    ratios = [one / two for one, two in times]
    report.add(title, f"{1e3 * ours_s:.1f} ms", f"{other}: {1e3 * theirs_s:.1f} ms", ratios, "<= 0.2")


def _batches(job_id: str, count: int, at_once: int) -> list[list[MetricRow]]:
    """`count` steps of a rank, with every metric, in batches."""
    rows = points(job_id, 1, count)
    return [rows[start : start + at_once] for start in range(0, len(rows), at_once)]


def _store_rate(sessions: Sessions, job_id: str, batches: Sequence[Sequence[MetricRow]]) -> float:
    """Points a second, stored as an intake does: one transaction for each batch."""
    with sessions.begin() as session:
        a_job(session, job_id, gpus=1)
    begun = time.perf_counter()
    for rows in batches:
        with sessions.begin() as session:
            store_metrics(session, rows)
    return sum(map(len, batches)) / (time.perf_counter() - begun)


def _copied(url: str, batches: Sequence[Sequence[MetricRow]]) -> float:
    """Points a second of PostgreSQL alone: the same rows as ready-made text, into the same kind of table."""
    texts = [as_text(rows) for rows in batches]
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS copied")
        cursor.execute("CREATE TABLE copied (LIKE metric_points INCLUDING ALL)")
        begun = time.perf_counter()
        for text in texts:
            with cursor.copy(f"COPY copied ({_COLUMNS}) FROM STDIN".encode()) as copy:
                copy.write(text)
        spent_s = time.perf_counter() - begun
        cursor.execute("DROP TABLE copied")
    return sum(map(len, batches)) / spent_s


def _read(sessions: Sessions, job_id: str) -> None:
    with sessions() as session:
        (loss,) = metrics(session, session.get_one(Job, job_id), names=["loss"], max_points=MAX_POINTS)
        assert len(loss.x) <= MAX_POINTS
        assert loss.x[-1] == STEPS


def _http_read_s(stack: Stack, job_id: str) -> float:
    headers = {"Authorization": f"Bearer {stack.token}"}
    with httpx2.Client(base_url=stack.url, headers=headers) as client:
        query = {"name": "loss", "max_points": str(MAX_POINTS)}
        return _spent_s(lambda: client.get(f"/v1/jobs/{job_id}/metrics", params=query).raise_for_status())


def _spent_s(call: Callable[[], object]) -> float:
    """The median time of some calls."""
    spent = []
    for _ in range(_READS):
        begun = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begun)
    return median(spent)


def _ingest_cost(report: Report, stack: Stack, hosts: int, slots: int) -> None:
    """The processor time for one second of a whole cluster's samples: the database's, and each host's."""
    with database(stack) as (url, sessions):
        cluster = Cluster(sessions, hosts=hosts, slots=slots, slots_of_a_job=10)
        analyze(url)
        cluster.sample(0)
        before, own_before = processor_s(stack), time.process_time()
        rows = sum(cluster.sample(second) for second in range(1, SECONDS + 1))
        cores = (processor_s(stack) - before) / SECONDS
        of_each = (time.process_time() - own_before) / SECONDS / hosts
    title = f"take in {rows / SECONDS:,.0f} samples a second, of {hosts:,} hosts x {slots} slots"
    report.add(title, f"{cores:.2f} cores", f"each host's worker: {of_each:.2%} of a core", [cores], "< 1")


def _in_long_tables(report: Report, stack: Stack, console: Console) -> None:
    """The same work on nearly empty tables, and on tables with ten million rows."""
    with database(stack) as (url, sessions):
        cluster = Cluster(sessions, hosts=10, slots=80, slots_of_a_job=10)
        analyze(url)
        cluster.sample(0)
        empty = _figures(sessions, cluster, first=1)
        fill(url, rows=FILLED)
        full = _figures(sessions, cluster, first=1000)
        for title, form, full_figure, empty_figure in zip(
            ("store samples", "store points", "read a series of points", "read a job's samples"),
            ("{:,.0f}/s", "{:,.0f}/s", "{:.4f} s", "{:.4f} s"),
            full, empty, strict=True,
        ):  # fmt: skip
            slower = empty_figure / full_figure if form.endswith("/s") else full_figure / empty_figure
            report.add(
                f"{title}, {FILLED:,} rows in the table",
                form.format(full_figure),
                form.format(empty_figure),
                [slower],
                "about 1",
            )
        console.print(*_plans(url), sep="\n", style="dim")


def _figures(sessions: Sessions, cluster: Cluster, *, first: int) -> tuple[float, float, float, float]:
    """Samples and points stored a second, and the seconds to read a metric and a job's samples."""
    for second in range(first, first + 10):  # the first change of a database page logs the whole page
        cluster.sample(second)
    begun = time.perf_counter()
    samples = sum(cluster.sample(second) for second in range(first + 10, first + 35)) / (time.perf_counter() - begun)
    job_id = f"r{next(_numbers):011}"
    store_rate = _store_rate(sessions, job_id, _batches(job_id, STEPS, BATCHES[0]))

    def sampled() -> None:
        with sessions() as session:
            utilization(session, session.get_one(Job, f"s{0:09}"), metrics=["gpu_percent"], max_points=MAX_POINTS)

    return samples, store_rate, _spent_s(lambda: _read(sessions, job_id)), _spent_s(sampled)


def _plans(url: str) -> Iterator[str]:
    """How the database finds a series in the long tables."""
    queries = (
        "SELECT numbers FROM metric_blocks WHERE job_id = 'old7' AND name = 'loss' ORDER BY first_step",
        "SELECT attempt, rank, array_agg(gpu_percent ORDER BY at) FROM samples WHERE job_id = 'old7' GROUP BY 1, 2",
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


@dataclass(frozen=True)
class _MLflow:
    """MLflow's process."""

    process: subprocess.Popen[str]

    def store(self, batches: Sequence[Sequence[MetricRow]]) -> float:
        """Store the same number of metrics, in batches of the same size. Returns metrics per second."""
        count = min(STEPS, sum(map(len, batches)))  # the newest run is read later
        return count / float(self._ask(f"store {count} {len(batches[0])}"))

    def read(self) -> Pair:
        """Seconds to read the newest run, from the store and over HTTP."""
        store, over_http = self._ask(f"read {MAX_POINTS} {_READS}")
        return median(store), median(over_http)

    def _ask(self, line: str) -> Any:
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())  # type: ignore[union-attr]


@contextmanager
def _mlflow(stack: Stack) -> Iterator[_MLflow | None]:
    """MLflow on a database of its own; None if its environment is missing."""
    if not _MLFLOW.exists():
        yield None
        return
    with empty_database(stack) as url:
        script = str(Path(__file__).with_name("mlflow_side.py"))
        argv = [str(_MLFLOW), script, url.replace("postgresql:", "postgresql+psycopg:")]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=null, text=True) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()  # it is ready
                yield _MLflow(process)
            finally:
                process.kill()
