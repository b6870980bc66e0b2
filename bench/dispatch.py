"""Measures the time from a free slot to a launch, the time of a pass over a long queue, and attempts per second.

It runs on an embedded database and broker. The worker is the real one, but its attempts do nothing: they are claimed
and ended. For comparison, tasks of plain Celery and of procrastinate that do nothing run on the same machine.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import procrastinate
import psycopg
import redis
from rich.console import Console
from rich.table import Table
from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from bench.databases import analyze, database, empty_database
from bench.no_ops import DONE, HOLD_S, QUEUE, celery_of, procrastinate_of
from hora.stack.control import Stack
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import Spec, spec_from
from jobs.model.states import Status
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from worker.dispatcher import Dispatcher

HOSTS, SLOTS, QUEUED = 200, 8, 10_000
NO_OPS = 500
_NOWHERE = "redis+socket:///nowhere/broker.sock"
_SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001}
_numbers = count(1)


def main(*, rounds: int) -> None:
    """Measure and print."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, parts=("database", "broker")) as stack:
            _latency(console, stack)
            _passes(console, stack, rounds)
            _throughput(console, stack, rounds)


def _latency(console: Console, stack: Stack) -> None:
    waits_by_title = {}
    for title, broker_url, jobs in (("hints", stack.broker_url, 200), ("hints lost", _NOWHERE, 25)):
        with (
            database(stack) as (url, sessions),
            _worker("hora", f"{HOLD_S}1", database=url, broker=broker_url, slots=4),
        ):
            _submit(sessions, jobs, hints=None)
            _until_succeeded(sessions, jobs)
            with sessions() as session:
                waits_by_title[title] = sorted(_waits_s(session))
    table = Table("", "median", "95 %", "slowest", title="From a free slot to the next launch on it")
    for title, waits_s in waits_by_title.items():
        figures = waits_s[len(waits_s) // 2], waits_s[len(waits_s) * 95 // 100], waits_s[-1]
        table.add_row(title, *(f"{1000 * wait_s:.0f} ms" for wait_s in figures))
    console.print(table)


def _waits_s(session: Session) -> Iterator[float]:
    """The time from each end to the claim of the attempt that got the slot, by the database's clock."""
    slot_of = Attempt.shares[0]["slots"][0].as_integer()
    previous = func.lag(Attempt.ended_at).over(partition_by=slot_of, order_by=Attempt.id)
    for claimed_at, freed_at in session.execute(select(Attempt.claimed_at, previous)):
        if freed_at is not None:
            yield (claimed_at - freed_at).total_seconds()


def _passes(console: Console, stack: Stack, rounds: int) -> None:
    """One pass over a long queue: on an empty cluster, on the full one, and on the full one with an urgent job."""
    table = Table("cluster", "median", "slowest", "jobs placed", title=f"A pass over {QUEUED:,} jobs, {HOSTS} hosts")
    measured = [_three_passes(stack, random.Random(number)) for number in range(rounds)]  # noqa: S311 - nothing secret
    for title, passes in zip(("empty", "full", "full, and an urgent job"), zip(*measured, strict=True), strict=True):
        spent_s, placed = zip(*passes, strict=True)
        table.add_row(
            title, f"{1000 * median(spent_s):.0f} ms", f"{1000 * max(spent_s):.0f} ms", f"{median(placed):.0f}"
        )
    console.print(table)


def _three_passes(stack: Stack, numbers: random.Random) -> list[tuple[float, int]]:
    with database(stack) as (url, sessions):
        hints = Hints(stack.broker_url)
        dispatcher = Dispatcher(sessions, hints, Settings(database_url=url))
        with sessions.begin() as session:
            _fill(session, numbers)
        analyze(url)
        passes = [_timed(dispatcher), _timed(dispatcher)]
        with sessions.begin() as session:
            session.execute(insert(Job), [_job(100, gpus=SLOTS)])
        passes.append(_timed(dispatcher))
        hints.close(30)
    return passes


def _timed(dispatcher: Dispatcher) -> tuple[float, int]:
    begun = time.perf_counter()
    placed = dispatcher.run()
    return time.perf_counter() - begun, placed


def _fill(session: Session, numbers: random.Random) -> None:
    hosts = [f"h{number:03}" for number in range(HOSTS)]
    session.execute(insert(Host), [{"name": host, "info": {"peers": "all"}, "address": host} for host in hosts])
    slots = [
        {"host": host, "index": index, "kind": "gpu", "name": "a GPU", "uuid": f"{host}-{index}"}
        for host in hosts
        for index in range(SLOTS)
    ]
    session.execute(insert(Slot), slots)
    jobs = [_job(numbers.randint(1, 99), gpus=numbers.choice((1, 1, 1, 2, 4, 8, 16))) for _ in range(QUEUED)]
    session.execute(insert(Job), jobs)


def _job(priority: int, *, gpus: int) -> dict[str, object]:
    spec = _spec(gpus=gpus, priority=priority)
    return {
        "id": f"b{next(_numbers):011}", "name": "no-op", "owner": "me", "status": Status.QUEUED, "gpus": gpus,
        "spec": spec.model_dump(mode="json"), "plan": resolve_plan(spec, None).model_dump(mode="json"),
        "labels": {}, "priority": priority,
    }  # fmt: skip


def _spec(**fields: object) -> Spec:
    return spec_from({**_SPEC, **fields})


def _throughput(console: Console, stack: Stack, rounds: int) -> None:
    sides: dict[str, Callable[[Stack], float]] = {"hora": _hora, "Celery": _celery, "procrastinate": _procrastinate}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        for side, measure in sides.items():
            console.print(f"dispatch: round {number + 1} of {rounds}, {side}", style="dim")
            rates[side].append(measure(stack))
    table = Table("", "per second", "slowest to fastest", title=f"{NO_OPS} attempts or tasks that do nothing")
    for side, values in rates.items():
        table.add_row(side, f"{median(values):.0f}", f"{min(values):.0f} to {max(values):.0f}")
    console.print(table)


def _hora(stack: Stack) -> float:
    with database(stack) as (url, sessions), _worker("hora", database=url, broker=stack.broker_url, slots=SLOTS):
        hints = Hints(stack.broker_url)
        _submit(sessions, 20, hints=hints)
        _until_succeeded(sessions, 20)
        begun = time.perf_counter()
        _submit(sessions, NO_OPS, hints=hints)
        _until_succeeded(sessions, 20 + NO_OPS)
        spent_s = time.perf_counter() - begun
        hints.close()
    return NO_OPS / spent_s


def _celery(stack: Stack) -> float:
    app = celery_of(stack.broker_url)
    with _worker("celery", broker=stack.broker_url), redis.Redis.from_url(_unix(stack.broker_url)) as counter:
        counter.delete(DONE)
        app.send_task("no_op", queue=QUEUE)
        _until(lambda: int(counter.get(DONE) or 0) == 1)
        begun = time.perf_counter()
        for _ in range(NO_OPS):
            app.send_task("no_op", queue=QUEUE)
        _until(lambda: int(counter.get(DONE) or 0) == 1 + NO_OPS)
        return NO_OPS / (time.perf_counter() - begun)


def _procrastinate(stack: Stack) -> float:
    with empty_database(stack) as url:
        app = procrastinate_of(procrastinate.SyncPsycopgConnector(conninfo=url))
        with app.open(), psycopg.connect(url, autocommit=True) as connection:
            app.schema_manager.apply_schema()

            def succeeded_count() -> int:
                query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
                return int(connection.execute(query).fetchone()[0])  # type: ignore[index]

            with _worker("procrastinate", database=url):
                app.tasks["no_op"].defer()
                _until(lambda: succeeded_count() == 1)
                begun = time.perf_counter()
                for _ in range(NO_OPS):
                    app.tasks["no_op"].defer()
                _until(lambda: succeeded_count() == 1 + NO_OPS)
                return NO_OPS / (time.perf_counter() - begun)


def _submit(sessions: Sessions, jobs: int, *, hints: Hints | None) -> None:
    spec = _spec(gpus=1)
    plan = resolve_plan(spec, None)
    for _ in range(jobs):
        with sessions.begin() as session:
            write_job(session, spec=spec, plan=plan, owner="me")
        if hints is not None:
            hints.dispatch()


def _until_succeeded(sessions: Sessions, jobs: int) -> None:
    succeeded = select(func.count()).where(Job.status == Status.SUCCEEDED)

    def are_all() -> bool:
        with sessions() as session:
            return session.scalar(succeeded) == jobs

    _until(are_all)


@contextmanager
def _worker(kind: str, *options: str, database: str = "", broker: str = "", slots: int = 1) -> Iterator[None]:
    """A worker that does nothing, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as home, tempfile.TemporaryFile() as log:
        environment = {
            **os.environ, "HORA_HOME": home, "HORA_DATABASE_URL": database, "HORA_BROKER_URL": broker,
            "HORA_SLOTS": str(slots), "HORA_HOST_NAME": "bench", "HORA_WARM_RANKS": "0",
        }  # fmt: skip
        argv = [sys.executable, "-m", "bench.no_ops", kind, *options]
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        except TimeoutError:
            log.seek(0)
            sys.stderr.buffer.write(log.read()[-5000:])
            raise
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until(condition: Callable[[], bool], *, within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done within {within_s:g} s")
        time.sleep(0.02)


def _unix(broker_url: str) -> str:
    return broker_url.replace("redis+socket://", "unix://")
