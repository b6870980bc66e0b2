"""Measures the time that the service adds to `horovodrun`: to the first line and the first step, and in each step.

Beside it: the time from POST to the first statement of a script, which its rank starts in a view of its own; and what a
worker takes of a core while there is nothing to do.

Three sides take turns with the same trainer, spec, thread counts and machine: the service (from POST), Horovod's own
`horovodrun` (from its start), and one bare process (no launcher can be faster). Run it on an otherwise idle machine,
and quote the ratios.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console
from rich.table import Table

from bench.databases import processor_s
from bench.ranks import Run, bare_horovodrun
from hora.service import Service
from hora.service.code_folders import code_folder
from hora.service.sending_code import send_code
from hora.stack.control import Stack
from jobs.model.records import PhaseEnded, RankStarted, StepEnded, parse_record, rank_records_name
from worker.attempt.paths import AttemptPaths, paths_of

RANKS = 2
SPEC = {
    "dataset": "digits", "model": "lenet5", "batch_size": 640, "learning_rate": 0.001, "gpus": RANKS,
    "epochs": 10, "steps_per_epoch": 50, "early_stopping": None,
}  # fmt: skip
POSTS = 200
IDLE_S = 60.0
_SETTLED_S = 20.0  # after the last job: its slots, its samples and the forecasts are done with
SCRIPT = "import time\nprint(time.time())\n"


@dataclass(frozen=True)
class Timings:
    """Seconds from the start to rank 0's first line and first step, and the median time of its later steps.

    `phases_s` are the parts of the time between that line and that step.
    """

    first_line_s: float
    first_step_s: float
    step_s: float
    phases_s: Mapping[str, float]


def main(*, rounds: int) -> None:
    """Measure in turns and print the table."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, slots=RANKS) as stack, Service(stack.url, stack.token) as client:
            client.wait(client.submit({**SPEC, "epochs": 1})["id"])  # warms the disk's caches for all sides
            sides: dict[str, Callable[[int], Timings]] = {
                "hora": lambda _: _through_the_service(client, stack.home),
                "horovodrun": lambda n: _bare(folder / f"bare-{n}", bare_horovodrun(RANKS), ranks=RANKS),
                "one process": lambda n: _bare(folder / f"floor-{n}", [], ranks=1),
            }
            measured: dict[str, list[Timings]] = {side: [] for side in sides}
            scripts_s = []
            digest = _sent_script(client, folder)
            for number in range(rounds):
                for side, run in sides.items():
                    console.print(f"launch: round {number + 1} of {rounds}, {side}", style="dim")
                    measured[side].append(run(number))
                console.print(f"launch: round {number + 1} of {rounds}, a script", style="dim")
                scripts_s.append(_first_statement_s(client, stack.home, digest))
            console.print(f"launch: an idle worker, for {IDLE_S:.0f} s", style="dim")
            time.sleep(_SETTLED_S)
            idle_share, database_share = _idle_shares(stack)
            rss_bytes = psutil.Process(stack.pid_of("api")).memory_info().rss
        with Stack(folder / "no-worker", port=0, parts=("database", "broker", "migrations", "api")) as stack:
            post_s = _post_latency(stack)
    console.print(_table(measured))
    console.print(_phase_table(measured))
    spec_job_s = median(timings.first_line_s for timings in measured["hora"])
    console.print(
        f"start to the first statement of a script on {RANKS} ranks: median {median(scripts_s):.2f} s"
        f" ({min(scripts_s):.2f} to {max(scripts_s):.2f}), {median(scripts_s) / spec_job_s:.3f} of the first line above"
    )
    console.print(
        f"idle worker with its template of ranks: {100 * idle_share:.2f} % of a core,"
        f" and {100 * database_share:.2f} % in the database"
    )
    console.print(f"POST /v1/jobs: median {1000 * post_s:.1f} ms over {POSTS}; api: {rss_bytes / 1e6:.0f} MB resident")


def _through_the_service(client: Service, home: Path) -> Timings:
    started_at = time.time()
    job = client.submit(SPEC)
    ended = client.wait(job["id"])
    assert ended["status"] == "succeeded", ended
    return timings(paths_of(home / "runs", job["id"], 1), started_at)


def _sent_script(client: Service, folder: Path) -> str:
    """Send the script; the digest of its archive."""
    code = folder / "code"
    code.mkdir()
    (code / "script.py").write_text(SCRIPT)
    digest: str = send_code(client, code_folder(code))["digest"]
    return digest


def _first_statement_s(client: Service, home: Path, digest: str) -> float:
    """Seconds from POST to the first statement of a script's rank 0."""
    started_at = time.time()
    job = client.submit({"code": digest, "command": ["python", "script.py"], "gpus": RANKS})
    ended = client.wait(job["id"])
    assert ended["status"] == "succeeded", ended
    said = (paths_of(home / "runs", job["id"], 1).logs / "rank-0.log").read_text().splitlines()
    return next(float(line) for line in said if line.replace(".", "", 1).isdigit()) - started_at


def _bare(folder: Path, launcher: list[str], *, ranks: int) -> Timings:
    run = Run(folder, SPEC, ranks=ranks, threads=max(1, (os.cpu_count() or 1) // RANKS))
    started_at = time.time()
    run.wait(run.start(launcher))
    return timings(run.paths, started_at)


def timings(paths: AttemptPaths, started_at: float) -> Timings:
    """The timings of an attempt that was started at this time, from its records."""
    lines = (paths.records / rank_records_name(0)).read_bytes().splitlines()
    records = [parse_record(line) for line in lines]
    first_line = next(record for record in records if isinstance(record, RankStarted))
    steps = [record for record in records if isinstance(record, StepEnded)]
    later = steps[len(steps) // 4 :]
    step_s = median(step.step_time_s for step in later)
    phases_s = {record.name: record.duration_s for record in records if isinstance(record, PhaseEnded)}
    return Timings(first_line.at - started_at, steps[0].at - started_at, step_s, phases_s)


def _idle_shares(stack: Stack) -> tuple[float, float]:
    """The shares of a core that the worker with its children takes, and the database."""
    worker = psutil.Process(stack.pid_of("worker"))
    before, began = (_spent_s(worker), processor_s(stack)), time.monotonic()
    time.sleep(IDLE_S)
    after, spent_s = (_spent_s(worker), processor_s(stack)), time.monotonic() - began
    idle_share, database_share = ((late - early) / spent_s for early, late in zip(before, after, strict=True))
    return idle_share, database_share


def _spent_s(worker: psutil.Process) -> float:
    """Processor seconds of a worker and the processes that it keeps."""
    times = [process.cpu_times() for process in (worker, *worker.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _post_latency(stack: Stack) -> float:
    with Service(stack.url, stack.token) as client:
        spent = []
        for _ in range(POSTS):
            started_at = time.perf_counter()
            client.submit(SPEC)
            spent.append(time.perf_counter() - started_at)
    return median(spent)


def _table(measured: dict[str, list[Timings]]) -> Table:
    table = Table("", *measured, "hora / horovodrun", title=f"Launch, {RANKS} ranks: median (fastest to slowest)")
    rows: Iterable[tuple[str, Callable[[Timings], float], str]] = (
        ("start to first line of rank 0", lambda t: t.first_line_s, "s"),
        ("start to first training step", lambda t: t.first_step_s, "s"),
        ("steady step", lambda t: 1000 * t.step_s, "ms"),
    )
    for title, figure, unit in rows:
        values = {side: sorted(map(figure, timings)) for side, timings in measured.items()}
        ratio = median(values["hora"]) / median(values["horovodrun"])
        cells = [f"{median(v):.2f} {unit} ({v[0]:.2f} to {v[-1]:.2f})" for v in values.values()]
        table.add_row(title, *cells, f"{ratio:.3f}")
    return table


def _phase_table(measured: dict[str, list[Timings]]) -> Table:
    table = Table("phase", *measured, title="From the first line to the first step: median seconds of rank 0")
    for phase in next(iter(measured.values()))[0].phases_s:
        medians = (median(timings.phases_s[phase] for timings in of_side) for of_side in measured.values())
        table.add_row(phase, *(f"{value:.2f}" for value in medians))
    return table
