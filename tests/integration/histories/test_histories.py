"""The scheduler's guarantees under random histories, and proof that the histories find what would break them.

The rules are in `machine`, what must hold in `checks` and `audit`. Every run makes the same histories.
`HORA_HISTORIES=2000 pytest tests/integration/histories -k random` makes so many new ones; a failure prints its steps.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from jobs.db.tables import Host
from tests.integration.histories.bugs import BUGS, Plant
from tests.integration.histories.clock import START
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


def in_the(world: World) -> type[Histories]:
    """The machine, in this world."""
    return type("Histories", (Histories,), {"world": world})


@pytest.mark.timeout(900 + _MORE)
def test_random_histories_break_no_guarantee(world: World) -> None:
    run_state_machine_as_test(in_the(world), settings=_SETTINGS)


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
