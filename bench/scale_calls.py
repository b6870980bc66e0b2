"""What the calls that workers and supervisors repeat cost the database, through their own code. For `bench.scale`.

The processor time of the database is measured, not the time that passes: so it does not matter what else runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from bench.databases import database, processor_s
from bench.telemetry import START, Cluster, points
from hora.stack.control import Stack
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.runtime.settings import Settings
from jobs.scheduling import registration
from jobs.telemetry.ingest import LogRow, store_logs, store_metrics
from worker.app import Worker
from worker.lookout import Lookout

_HOSTS, _SLOTS = 100, 8
_ROUNDS = 3


@dataclass(frozen=True)
class Cost:
    """What one call costs the database, in processor seconds."""

    call: str
    processor_s: float


def costs(stack: Stack) -> list[Cost]:
    """Measure every call some hundred times."""
    with database(stack) as (url, sessions):
        cluster = Cluster(sessions, hosts=_HOSTS, slots=_SLOTS, slots_of_a_job=_SLOTS)
        with sessions() as session:
            rows = session.scalars(select(Attempt)).all()
            held = [Lease(row.id, str(row.token), row.job_id, row.number) for row in rows]
        hosts = [f"h{number:05}" for number in range(_HOSTS)]
        at = [START + timedelta(seconds=second) for second in range(100)]
        logs = [LogRow(held[0].job_id, 1, 0, one, "step 100 loss 0.25 " * 4) for one in at]
        calls: dict[str, Sequence[Callable[[Session], object]]] = {
            "heartbeat of a host": [partial(registration.beat, name=host) for host in hosts],
            "renewal of a lease": [partial(leases.renew, lease=lease, lease_s=60) for lease in held],
            "look for orders": [partial(leases.stop_requests, lease=lease) for lease in held],
            "100 log lines": [partial(store_logs, rows=logs)] * _HOSTS,
            "100 steps of a rank, 5 metrics": [
                partial(store_metrics, rows=points(lease.job_id, 1, 100)) for lease in held
            ],
        }
        measured = [Cost(name, _measured(stack, partial(_call, sessions, actions))) for name, actions in calls.items()]
        measured.append(Cost(f"samples of a host, {_SLOTS} slots", _measured(stack, partial(cluster.sample, 1))))
        lookout = Worker(Settings(database_url=url, broker_url=stack.broker_url, host_name=hosts[0])).lookout
        measured.append(Cost("look for work", _measured(stack, partial(_look, lookout))))
        lookout.disconnect()
        return measured


def _call(sessions: Sessions, actions: Sequence[Callable[[Session], object]]) -> None:
    for action in actions:
        with sessions.begin() as session:
            action(session)


def _look(lookout: Lookout) -> None:
    for _ in range(_HOSTS):
        lookout.once()


def _measured(stack: Stack, calls: Callable[[], object]) -> float:
    """The processor time of one of `_HOSTS` calls."""
    calls()
    before_s = processor_s(stack)
    for _ in range(_ROUNDS):
        calls()
    return (processor_s(stack) - before_s) / _ROUNDS / _HOSTS
