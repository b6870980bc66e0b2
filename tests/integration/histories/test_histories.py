"""The scheduler's guarantees under random histories, and proof that the histories find what would break them.

The rules are in `machine`, what must hold in `audit`. Every run makes the same histories.
`HORA_HISTORIES=2000 pytest tests/integration/histories -k random` makes so many new ones; a failure prints its steps.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import create_engine, func, select, true, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from jobs.db.tables import Host, Slot
from jobs.lifecycle import leases
from jobs.model.states import EventKind
from jobs.runtime.settings import Settings
from tests.integration.histories.clock import START, database_with_a_clock
from tests.integration.histories.machine import Histories
from tests.integration.histories.world import World

_MORE = int(os.environ.get("HORA_HISTORIES", "0"))
_SETTINGS = settings(
    max_examples=_MORE or 20,  # each of the bugs below is found in the first dozen
    stateful_step_count=30,
    derandomize=not _MORE,
    database=None,
    deadline=None,
    print_blob=True,
    phases=[Phase.generate, Phase.shrink] if _MORE else [Phase.generate],  # to shorten a history takes minutes
    suppress_health_check=list(HealthCheck),
)
_FOR_BUGS = settings(
    _SETTINGS, max_examples=200, phases=[Phase.generate], report_multiple_bugs=False, verbosity=Verbosity.quiet
)


@pytest.fixture(scope="module")
def world(postgres_url: str) -> Iterator[World]:
    """A world on a database with a clock; each history empties it."""
    with database_with_a_clock(postgres_url) as url, ThreadPoolExecutor(2) as pool:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))  # without a ping before each use
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as onlooker:
            yield World(engine, onlooker, Settings(), pool)
        engine.dispose()


def in_the(world: World) -> type[Histories]:
    """The machine, in this world."""
    return type("Histories", (Histories,), {"world": world})


@pytest.mark.timeout(900 + _MORE)
def test_random_histories_break_no_guarantee(world: World) -> None:
    run_state_machine_as_test(in_the(world), settings=_SETTINGS)


# Bugs that the histories must find: of slots and of the history. Each function takes away one guard. Its
# docstring says how the service then behaves.
Plant = Callable[[pytest.MonkeyPatch], None]


def leaked_slot(patch: pytest.MonkeyPatch) -> None:
    """A release gives back only the slot of the first rank."""

    def release(session: Session, attempt_id: int, *, host: str | None = None) -> None:
        mine = (Slot.attempt_id == attempt_id, Slot.rank == 0, Slot.host == host if host else true())
        session.execute(update(Slot).where(*mine).values(attempt_id=None, rank=None, quarantined_at=None))

    patch.setattr(leases, "release", release)


def history_with_a_gap(patch: pytest.MonkeyPatch) -> None:
    """A job goes back to the queue, and its history does not say so."""
    add_events = leases.add_events

    def forgetful(session: Session, job_id: str, events: Sequence[tuple[EventKind, Any]], **rest: Any) -> None:
        add_events(session, job_id, [event for event in events if event[0] is not EventKind.REQUEUED], **rest)

    patch.setattr(leases, "add_events", forgetful)


BUGS: list[Plant] = [leaked_slot, history_with_a_gap]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_the_histories_find_a_planted_bug(world: World, monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    """A check or a constraint of the database finds it. A bug that is a race may not show again: that is `Flaky`."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, IntegrityError, Flaky)):
        run_state_machine_as_test(in_the(world), settings=_FOR_BUGS)


def test_the_database_uses_the_clock_of_the_test(world: World) -> None:
    world.reset()
    world.register("ha", 1)
    world.clock.forward(90)
    with world.sessions() as session:
        heartbeat_at, registered_at, now = session.execute(
            select(Host.heartbeat_at, Host.registered_at, func.now())
        ).one()
    assert (heartbeat_at, registered_at) == (START, START)
    assert (now - START).total_seconds() == 90
