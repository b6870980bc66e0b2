"""Whose turn it is in the fair queue, and who makes room for whom."""

from collections.abc import Mapping, Sequence

import pytest

from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import PATIENCE_S, Fair
from jobs.scheduling.placement import PlacementPass, place_jobs
from jobs.scheduling.slots import SlotClass, SlotRequest
from tests.slot_classes import alike

ANN, BEN = Account("vision", "ann"), Account("vision", "ben")
CARA = Account("speech", "cara")
SLOTS = 8


def job(
    name: str, account: Account = ANN, *, gpus: int = 1, priority: int = 50, level: int = 0, waited_s: float = 0.0
) -> QueuedJob:
    """Jobs are sorted by name, as if the first in the alphabet were the oldest."""
    order = (-priority, float(ord(name[0])), name)
    return QueuedJob(name, order, SlotRequest(gpus), account=account, level=level, waited_s=waited_s)


def live(
    number: int,
    name: str,
    account: Account = ANN,
    *,
    gpus: int = 1,
    priority: int = 50,
    level: int = 2,
    undisturbed_s: float = 0.0,
    leaving: bool = False,
) -> LiveAttempt:
    order = (-priority, float(ord(name[0])), name)
    slots = {SlotClass("ha", "gpu"): gpus}
    return LiveAttempt(number, order, slots, account=account, level=level, undisturbed_s=undisturbed_s, leaving=leaving)


def fair(
    used_s: Mapping[Account, float],
    attempts: Sequence[LiveAttempt] = (),
    shares: Mapping[str, float] | None = None,
    wanting: Sequence[Account] | None = None,
) -> Fair:
    return Fair(attempts, used_s, shares or {}, {"gpu": SLOTS}, wanting=wanting)


def in_turn(rules: Fair, *jobs: QueuedJob, oldest: Sequence[QueuedJob] = ()) -> list[str]:
    lanes: dict[Account, list[QueuedJob]] = {}
    for one in sorted(jobs, key=lambda one: (one.order[0], one.level, one.order)):
        lanes.setdefault(one.account, []).append(one)
    sources = {account: iter(lane) for account, lane in lanes.items()}
    order = []
    for one in rules.in_turn(sources, oldest):
        rules.placed(one, one.request.gpus)
        order.append(one.job_id)
    return order


def decide(rules: Fair, attempts: Sequence[LiveAttempt], *jobs: QueuedJob) -> PlacementPass:
    """One pass over a host whose slots are all held by the attempts."""
    held = sum(attempt.gpus for attempt in attempts)
    lanes: dict[Account, list[QueuedJob]] = {}
    for one in sorted(jobs, key=lambda one: (one.order[0], one.level, one.order)):
        lanes.setdefault(one.account, []).append(one)
    queue = rules.in_turn({account: iter(lane) for account, lane in lanes.items()})
    return place_jobs(queue, [alike("ha", "gpu", SLOTS - held, SLOTS)], attempts, rules=rules)


def preempted(rules: Fair, attempts: Sequence[LiveAttempt], *jobs: QueuedJob) -> dict[str, tuple[int, ...]]:
    return {one.job_id: one.attempt_ids for one in decide(rules, attempts, *jobs).preemptions}


OLD = [job("a", level=2, waited_s=PATIENCE_S), job("b", waited_s=PATIENCE_S), job("c", waited_s=PATIENCE_S)]
ALMOST_OLD = job("a", level=2, waited_s=PATIENCE_S - 1)
OF_BEN = job("y", BEN)


@pytest.mark.parametrize(
    ("used_s", "jobs", "old", "order"),
    [
        # first the priority, then the level, then the age
        ({ANN: 0.0}, [job("a", level=2), job("b", level=1), job("c"), job("d"), job("e", priority=60, level=2)], [],
         "ecdba"),
        # users of a project take turns
        ({ANN: 0.0, BEN: 0.0}, [*map(job, "abcd"), job("x", BEN), OF_BEN], [], "axbycd"),
        # who used less comes first, even with jobs of a higher level
        ({ANN: 1e5, BEN: 0.0}, [job("a"), job("b"), job("y", BEN, level=2)], [], "yab"),
        # a little more usage decides only within a level
        ({ANN: 1_000_050.0, BEN: 1e6}, [job("a"), OF_BEN], [], "ya"),
        ({ANN: 1_000_050.0, BEN: 1e6}, [job("a"), job("y", BEN, level=1)], [], "ay"),
        # a job that waited for long comes first, whatever its level
        ({ANN: 1e6, BEN: 1e6}, [OLD[0], job("b"), OF_BEN], OLD[:1], "ayb"),
        ({ANN: 1e6, BEN: 1e6}, [ALMOST_OLD, OF_BEN], [ALMOST_OLD], "ya"),
        ({ANN: 0.0}, [*OLD, job("d")], OLD, "abcd"),
        # but not if its account had more than its share, and not before a higher priority
        ({ANN: 1.05e6, BEN: 1e6}, [OLD[1], OF_BEN], OLD[1:2], "yb"),
        ({ANN: 0.0}, [OLD[0], job("z", priority=51)], OLD[:1], "za"),
    ],
)  # fmt: skip
def test_jobs_come_in_turn(
    used_s: Mapping[Account, float], jobs: Sequence[QueuedJob], old: Sequence[QueuedJob], order: str
) -> None:
    assert "".join(in_turn(fair(used_s), *jobs, oldest=old)) == order


def test_projects_share_by_their_shares_and_not_by_their_users() -> None:
    used_s = {ANN: 250_000.0, BEN: 250_000.0, CARA: 500_000.0}
    assert not any(use.is_over for use in fair(used_s).standings().values())
    double = fair(used_s, shares={"vision": 2.0}).standings()
    assert double[CARA].is_over
    assert double[CARA].entitled_part == pytest.approx(1 / 3)
    assert double[ANN].entitled_part == pytest.approx(1 / 3)
    assert double[ANN].used_part == pytest.approx(1 / 4)
    assert not fair({ANN: 1e9}).standings()[ANN].is_over, "it is alone"


def test_a_new_job_takes_the_slot_of_the_last_submitted_long_one() -> None:
    attempts = [live(number, name) for number, name in enumerate("hijklmno")]
    assert preempted(fair({ANN: 0.0}, attempts), attempts, job("z")) == {"z": (7,)}


def test_an_attempt_is_left_undisturbed_for_its_quantum() -> None:
    attempts = [live(number, name, undisturbed_s=float(number)) for number, name in enumerate("hijklmno")]
    assert preempted(fair({ANN: 0.0}, attempts), attempts, job("y"), job("z")) == {"y": (0,)}


def test_new_jobs_do_not_preempt_each_other() -> None:
    attempts = [live(number, name, level=0) for number, name in enumerate("hijklmno")]
    assert preempted(fair({ANN: 0.0}, attempts), attempts, job("a")) == {}


def test_a_long_job_that_made_room_gets_its_slot_back_from_one_submitted_later() -> None:
    attempts = [live(number, name) for number, name in enumerate("hijklmno")]
    rules = fair({ANN: 0.0}, attempts)
    assert preempted(rules, attempts, job("k", level=2)) == {"k": (7,)}
    assert preempted(rules, attempts, job("z", level=2)) == {}
    both = fair({ANN: 0.0, BEN: 1e-9}, attempts)
    assert preempted(both, attempts[:4], job("k", BEN, level=2)) == {}


def test_a_narrow_job_preempts_a_wide_one_only_without_another() -> None:
    wide, narrow = live(1, "w", gpus=4), [live(number, name) for number, name in enumerate("hijk", start=2)]
    assert preempted(fair({ANN: 0.0}, [wide, *narrow]), [wide, *narrow], job("z")) == {"z": (5,)}
    alone = [wide, live(2, "h", gpus=4, level=0)]
    assert preempted(fair({ANN: 0.0}, alone), alone, job("z")) == {"z": (1,)}


def test_a_higher_priority_is_never_preempted_and_a_lower_one_always() -> None:
    higher = [live(number, name, priority=60) for number, name in enumerate("hijklmno")]
    assert preempted(fair({ANN: 0.0}, higher), higher, job("z")) == {}
    lower = [live(number, name, priority=40, level=0, undisturbed_s=1e9) for number, name in enumerate("hijklmno")]
    assert len(preempted(fair({ANN: 0.0}, lower), lower, job("z"))) == 1


def test_an_account_over_its_share_makes_room_down_to_its_share() -> None:
    attempts = [live(number, name, ANN, level=0) for number, name in enumerate("hijklmno")]
    rules = fair({ANN: 1e6, BEN: 0.0}, attempts)
    wanted = [job(name, BEN) for name in "pqrstuvw"]
    asked = decide(rules, attempts, *wanted).preemptions
    again = fair({ANN: 1e6, BEN: 0.0}, attempts[:4])
    assert [one.attempt_ids for one in asked] == [(7,), (6,), (5,), (4,)]
    kept = [*attempts[:4], *(live(number, name, BEN, level=0) for number, name in enumerate("pqrs", start=8))]
    assert decide(again, kept, *wanted[4:]).preemptions == []


def test_levels_hold_for_the_jobs_of_an_account_over_its_share_too() -> None:
    """Otherwise a job that made room would be placed again before the older one that it made room for."""
    long, new = [live(number, name) for number, name in enumerate("hijk")], live(9, "x", level=0)
    attempts = [*long, new, live(20, "p", BEN, gpus=3)]
    rules = fair({ANN: 1e6, BEN: 0.0}, attempts, wanting=[ANN])
    assert preempted(rules, attempts, job("a", level=2)) == {"a": (3,)}
    assert preempted(rules, attempts, job("z")) == {"z": (3,)}


def test_what_an_account_without_waiting_jobs_does_not_hold_is_for_the_others() -> None:
    attempts = [*(live(number, name) for number, name in enumerate("hijklmn")), live(9, "p", BEN)]
    used_s = {ANN: 7e5, BEN: 1e5}
    assert not fair(used_s, attempts, wanting=[ANN]).standings()[ANN].is_over
    assert fair(used_s, attempts).standings()[ANN].is_over
    assert fair(used_s, attempts, wanting=[ANN]).standings()[BEN].entitled_part == pytest.approx(1 / 8)


def test_kinds_of_slots_are_shared_apart() -> None:
    """Half of all slots would be more than all GPUs: then nobody would be beyond the share with all of them."""
    attempts = [live(number, name, level=0) for number, name in enumerate("hijklmno")]
    rules = Fair(attempts, {ANN: 1e6, BEN: 0.0}, {}, {"gpu": SLOTS, "cpu": 64})
    assert preempted(rules, attempts, job("z", BEN)) == {"z": (7,)}


def test_slots_of_attempts_that_leave_already_are_waited_for() -> None:
    attempts = [live(number, name, leaving=name == "h") for number, name in enumerate("hijklmno")]
    assert preempted(fair({ANN: 0.0}, attempts), attempts, job("z")) == {}
