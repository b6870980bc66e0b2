"""`python -m bench scale`: times passes of the dispatcher over a long queue on many hosts, on a real PostgreSQL.

Each pass runs on a copy of a filled database. Its limit is what plain SQL needs for the rows that it reads and writes.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psycopg
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine, event

from bench.databases import analyze, copied_database, database, processor_s
from bench.scale_calls import Cost, costs
from bench.scale_rows import Size, add_urgent, empty_queue, fill, occupy
from bench.scale_rows import limit_s as limit_of
from hora.stack.control import Stack
from jobs.db.engine import Sessions
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from worker.dispatcher import Dispatcher


def _urgent(url: str, size: Size, *, jobs: int, of_all: float = 0.0, gpus: int = 64) -> None:
    occupy(url, size)
    add_urgent(url, size, jobs=jobs, gpus=int(size.hosts * of_all) * size.slots or gpus)


# What is done with a filled database before the pass.
CASES: dict[str, Callable[[str, Size], None]] = {
    "nothing queued": empty_queue,
    "no free slot": occupy,
    "1 of 200 slots free": partial(occupy, free_every=200),
    "1 of 8 slots free": partial(occupy, free_every=8),
    "20 urgent jobs of 64": partial(_urgent, jobs=20),
    "1 urgent, 1/4 of slots": partial(_urgent, jobs=1, of_all=0.25),
    "all slots free": lambda url, size: None,
}
_Queue = Literal["fair", "fifo"]


@dataclass(frozen=True)
class Pass:
    """One pass. `reads_s` and `writes_s` are the time of its statements; the rest of `took_s` is Python's."""

    users: int
    queue: str
    case: str
    placed: int
    preempted: int
    statements: int
    took_s: float
    processor_s: float  # of the dispatcher and the database, which does not depend on what else runs
    reads_s: float
    writes_s: float
    limit_s: float  # of the same reads and writes in plain SQL

    @property
    def python_s(self) -> float:
        """What the process spent outside of statements."""
        return self.took_s - self.reads_s - self.writes_s


def main(argv: Sequence[str]) -> int:
    """Measure and print. Returns the exit code."""
    arguments = _parser().parse_args(argv)
    passes, calls = list[Pass](), list[Cost]()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, parts=("database", "broker")) as stack:
            for users in arguments.users:
                size = Size(
                    arguments.jobs, arguments.hosts, arguments.slots, users, arguments.projects,
                    varied=arguments.varied, same_age=arguments.same_age,
                )  # fmt: skip
                passes += _passes(stack, size, arguments.cases, arguments.queues)
            calls = costs(stack)
    if arguments.json:
        rows = [asdict(one) | {"python_s": one.python_s} for one in passes]
        print(json.dumps({"passes": rows, "calls": [asdict(one) for one in calls]}))
    else:
        _print(passes, f"A pass over {arguments.jobs:,} jobs, {arguments.hosts:,} hosts of {arguments.slots} slots")
        _print_calls(calls)
    return 0


def _passes(stack: Stack, size: Size, cases: Sequence[str], queues: Sequence[_Queue]) -> Iterator[Pass]:
    with database(stack) as (url, sessions):
        fill(url, size)
        sessions.kw["bind"].dispose()
        for case in cases:
            for queue in queues:
                print(f"scale: {size.users} users, {queue}, {case}", file=sys.stderr)
                with copied_database(stack, url) as (copied, copied_sessions):
                    CASES[case](copied, size)
                    analyze(copied)
                    yield _pass(stack, copied, copied_sessions, size, queue, case)


def _pass(stack: Stack, url: str, sessions: Sessions, size: Size, queue: _Queue, case: str) -> Pass:
    hints = Hints(stack.broker_url)
    settings = Settings(database_url=url, queue=queue, host_timeout_s=7200)
    dispatcher = Dispatcher(sessions, hints, settings)
    with sessions() as session:
        dispatcher._pass(session)
        session.rollback()
    with _statements(sessions.kw["bind"]) as statements:
        begun_s, spent_s = time.perf_counter(), time.thread_time() + processor_s(stack)
        placed = dispatcher.run()
        took_s, spent_s = time.perf_counter() - begun_s, time.thread_time() + processor_s(stack) - spent_s
    hints.close(60)
    with psycopg.connect(url) as connection:
        count = "SELECT count(*) FROM attempts WHERE preempt_requested_at IS NOT NULL"
        preempted = connection.execute(count).fetchone()
    reads_s = sum(spent_s for is_read, spent_s in statements if is_read)
    writes_s = sum(spent_s for is_read, spent_s in statements if not is_read)
    return Pass(
        size.users, queue, case, placed, preempted[0] if preempted else 0, len(statements), took_s, spent_s, reads_s,
        writes_s,
        limit_of(url, placed),
    )  # fmt: skip


@contextmanager
def _statements(engine: Engine) -> Iterator[list[tuple[bool, float]]]:
    """Whether each statement of the engine only reads, and the seconds that it took."""
    statements, begun_s = list[tuple[bool, float]](), list[float]()

    def before(*_: Any) -> None:
        begun_s.append(time.perf_counter())

    def after(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append((statement.startswith("SELECT"), time.perf_counter() - begun_s.pop()))

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    yield statements
    event.remove(engine, "before_cursor_execute", before)
    event.remove(engine, "after_cursor_execute", after)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench scale", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000, help="queued jobs (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=1250, help="number of hosts (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=8, help="slots of each host (default: %(default)s)")
    parser.add_argument(
        "--users", type=_counts, default=[1, 100, 1000], help="measured one by one (default: 1,100,1000)"
    )
    parser.add_argument("--projects", type=int, default=1, help="over which the users are spread (default: 1)")
    parser.add_argument("--varied", action="store_true", help="hundreds of different requests in the queue")
    parser.add_argument("--same-age", action="store_true", help="all jobs were submitted at the same time")
    parser.add_argument("--cases", type=_cases, default=list(CASES), help=f"of: {','.join(CASES)} (default: all)")
    parser.add_argument(
        "--queues", type=lambda text: text.split(","), default=["fair", "fifo"], help="rules (default: fair,fifo)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _counts(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _cases(text: str) -> list[str]:
    return [case for case in CASES if any(case.startswith(word) for word in text.split(","))]


def _print(passes: Sequence[Pass], title: str) -> None:
    columns = (
        "placed",
        "preempted",
        "statements",
        "reads",
        "writes",
        "Python",
        "pass",
        "processor",
        "plain SQL",
        "ratio",
    )
    table = Table("users", "queue", "case", *columns, title=f"{title}; ms")
    for one in passes:
        times_s = (one.reads_s, one.writes_s, one.python_s, one.took_s, one.processor_s, one.limit_s)
        table.add_row(
            f"{one.users:,}", one.queue, one.case, f"{one.placed:,}", f"{one.preempted:,}", f"{one.statements:,}",
            *(f"{1000 * spent_s:,.0f}" for spent_s in times_s), f"{one.took_s / one.limit_s:.1f}",
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _print_calls(calls: Sequence[Cost]) -> None:
    table = Table("call", "processor", "a second, by one core", title="What calls cost the database")
    for one in calls:
        table.add_row(one.call, f"{1000 * one.processor_s:.2f} ms", f"{1 / one.processor_s:,.0f}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)
