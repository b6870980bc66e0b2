"""Whose turn it is in the fair queue, who makes room for whom, and that nobody makes room again and again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import PATIENCE_S, Fair
from jobs.scheduling.placement import PlacementPass, place_jobs
from jobs.scheduling.slots import HostSlots, SlotClass, SlotRequest
from tests.slot_classes import alike
from tests.unit.jobs.scheduling import contending
from tests.unit.jobs.scheduling.contending import lanes_of

ANN, BEN = Account("vision", "ann"), Account("vision", "ben")
CARA = Account("speech", "cara")
SLOTS = 8


def job(name: str, account: Account = ANN, **fields: Any) -> QueuedJob:
    return contending.job(name, account=account, **fields)


def live(number: int, name: str, account: Account = ANN, *, gpus: int = 1, level: int = 2, **known: Any) -> LiveAttempt:
    return contending.live(number, {"ha": gpus}, name=name, account=account, level=level, **known)


def eight(**known: Any) -> list[LiveAttempt]:
    """Attempts on all slots."""
    return [live(number, name, **known) for number, name in enumerate("hijklmno")]


def fair(
    used_s: Mapping[Account, float],
    attempts: Sequence[LiveAttempt] = (),
    shares: Mapping[str, float] | None = None,
    wanting: Sequence[Account] | None = None,
) -> Fair:
    return Fair(attempts, used_s, shares or {}, {"gpu": SLOTS}, wanting=wanting)


def in_turn(rules: Fair, *jobs: QueuedJob, oldest: Sequence[QueuedJob] = ()) -> list[str]:
    order = []
    for one in rules.in_turn({account: iter(lane) for account, lane in lanes_of(jobs).items()}, oldest):
        rules.placed(one, one.request.gpus)
        order.append(one.job_id)
    return order


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


def test_what_an_account_without_waiting_jobs_does_not_hold_is_for_the_others() -> None:
    attempts = [*(live(number, name) for number, name in enumerate("hijklmn")), live(9, "p", BEN)]
    used_s = {ANN: 7e5, BEN: 1e5}
    assert not fair(used_s, attempts, wanting=[ANN]).standings()[ANN].is_over
    assert fair(used_s, attempts).standings()[ANN].is_over
    assert fair(used_s, attempts, wanting=[ANN]).standings()[BEN].entitled_part == pytest.approx(1 / 8)


def test_slots_that_attempts_leave_count_no_more() -> None:
    used_s = {ANN: 1000.0, BEN: 1000.0}
    assert fair(used_s, [live(1, "h")]).standings()[ANN].used_part > 0.5
    assert fair(used_s, [live(1, "h", leaving=True)]).standings() == fair(used_s).standings()


WIDE, NARROW = live(1, "w", gpus=4), [live(number, name) for number, name in enumerate("hijk", start=2)]
NOBODY_USED, ANN_DID = {ANN: 0.0}, {ANN: 1e6, BEN: 0.0}
LONG_OR_NEW = [*(live(number, name) for number, name in enumerate("hijk")), live(9, "x", level=0)]
HALF_OF_BEN = [*eight(level=0)[:4], *(live(number, name, BEN, level=0) for number, name in enumerate("pqrs", start=8))]


@pytest.mark.parametrize(
    ("attempts", "jobs", "used_s", "preempted"),
    [
        # a new job takes the slot of the long one that was submitted last
        (eight(), [job("z")], NOBODY_USED, {"z": (7,)}),
        # an attempt is left undisturbed for its quantum
        ([live(number, name, undisturbed_s=float(number)) for number, name in enumerate("hijklmno")],
         [job("y"), job("z")], NOBODY_USED, {"y": (0,)}),
        # new jobs do not preempt each other
        (eight(level=0), [job("a")], NOBODY_USED, {}),
        # a long job that made room gets its slot back from one that was submitted later
        (eight(), [job("k", level=2)], NOBODY_USED, {"k": (7,)}),
        (eight(), [job("z", level=2)], NOBODY_USED, {}),
        # a narrow job preempts a wide one only if there is no other
        ([WIDE, *NARROW], [job("z")], NOBODY_USED, {"z": (5,)}),
        ([WIDE, live(2, "h", gpus=4, level=0)], [job("z")], NOBODY_USED, {"z": (1,)}),
        # a higher priority is never preempted, and a lower one always
        (eight(priority=60), [job("z")], NOBODY_USED, {}),
        (eight(priority=40, level=0, undisturbed_s=1e9), [job("z")], NOBODY_USED, {"z": (7,)}),
        # an account over its share makes room down to its share
        (eight(level=0), [job(name, BEN) for name in "pqrstuvw"], ANN_DID,
         {"p": (7,), "q": (6,), "r": (5,), "s": (4,)}),
        (HALF_OF_BEN, [job("a"), *(job(name, BEN) for name in "tuvw")], ANN_DID, {}),
        # levels hold for its jobs too: else a job that made room would be placed before the one that needed it
        ([*LONG_OR_NEW, live(20, "p", BEN, gpus=3)], [job("a", level=2)], ANN_DID, {"a": (3,)}),
        ([*LONG_OR_NEW, live(20, "p", BEN, gpus=3)], [job("z")], ANN_DID, {"z": (3,)}),
        # slots of attempts that leave already are waited for
        ([live(0, "h", leaving=True), *eight()[1:]], [job("z")], NOBODY_USED, {}),
    ],
)  # fmt: skip
def test_who_makes_room_for_whom(
    attempts: Sequence[LiveAttempt], jobs: Sequence[QueuedJob], used_s: Mapping[Account, float],
    preempted: dict[str, tuple[int, ...]],
) -> None:  # fmt: skip
    """The kinds of slots are shared apart: half of all slots here is more than all GPUs."""
    rules = Fair(attempts, used_s, {}, {"gpu": SLOTS, "cpu": 64}, wanting=[job.account for job in jobs])
    queue = rules.in_turn({account: iter(lane) for account, lane in lanes_of(jobs).items()})
    decided = place_jobs(queue, [alike("ha", "gpu", 0, SLOTS)], attempts, rules=rules)
    assert {one.job_id: one.attempt_ids for one in decided.preemptions} == preempted


HOST = "ha"
ACCOUNTS = st.sampled_from([Account(project, user) for project in ("p", "q") for user in ("ann", "ben", "cara")])
GPUS = st.sampled_from([1, 1, 1, 2, 4])
LEVELS = st.integers(0, 2)


@dataclass(frozen=True)
class Moment:
    """Accounts with what they used, their live attempts, and their jobs that wait."""

    used_s: dict[Account, float]
    live: list[LiveAttempt]
    queue: list[QueuedJob]

    def decide(self) -> tuple[PlacementPass, list[str]]:
        """One pass, and the jobs that it looked at in their turn."""
        wanting = {one.account for one in self.queue}
        here = wanting | {attempt.account for attempt in self.live}
        used_s = {account: self.used_s[account] for account in here}
        rules = Fair(self.live, used_s, {"q": 2.0}, {"gpu": SLOTS}, wanting=wanting)
        decided, looked_at = PlacementPass([self._host()], self.live, rules=rules), list[str]()

        def in_turn() -> Iterator[QueuedJob]:
            lanes = {account: iter(lane) for account, lane in lanes_of(self.queue).items()}
            for one in rules.in_turn(lanes, sorted(self.queue, key=lambda one: one.order)):
                looked_at.append(one.job_id)
                yield one

        decided.take(in_turn())
        return decided, looked_at

    def after(self, preempted: set[int]) -> "Moment":
        """The same moment, but these attempts have made room. Their jobs wait, and had not waited before."""
        waiting = [
            QueuedJob(
                attempt.job_id, attempt.order, SlotRequest(attempt.gpus), account=attempt.account, level=attempt.level
            )
            for attempt in self.live
            if attempt.attempt_id in preempted
        ]
        staying = [attempt for attempt in self.live if attempt.attempt_id not in preempted]
        return replace(self, live=staying, queue=self.queue + waiting)

    def _host(self) -> HostSlots:
        held = sum(attempt.gpus for attempt in self.live)
        return alike(HOST, "gpu", SLOTS - held, SLOTS)


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    """A busy host."""
    attempts: list[LiveAttempt] = []
    free = SLOTS
    while free:
        gpus = min(draw(GPUS), free)
        free -= gpus
        number = len(attempts)
        order = (-draw(st.sampled_from([50, 50, 60])), float(draw(st.integers(0, 20))), f"live{number}")
        slots = {SlotClass(HOST, "gpu"): gpus}
        undisturbed_s = draw(st.sampled_from([0.0, 0.0, 60.0]))
        attempts.append(
            LiveAttempt(number, order, slots, account=draw(ACCOUNTS), level=draw(LEVELS), undisturbed_s=undisturbed_s)
        )
    queue = [
        QueuedJob(
            f"wait{number}", (-draw(st.sampled_from([50, 50, 60])), float(draw(st.integers(0, 20))), f"wait{number}"),
            SlotRequest(draw(GPUS)), account=draw(ACCOUNTS), level=draw(LEVELS),
            waited_s=draw(st.sampled_from([0.0, 0.0, PATIENCE_S])),
        )
        for number in range(draw(st.integers(1, 6)))
    ]  # fmt: skip
    accounts = {attempt.account for attempt in attempts} | {one.account for one in queue}
    used_s = {account: draw(st.floats(0, 1e5)) for account in sorted(accounts, key=str)}
    return Moment(used_s, attempts, queue)


_ANN, _BEN = Account("p", "ann"), Account("q", "ben")
# A job that comes first because it waited, until others make room for it: then its account used more than its part.
NOT_FIRST_ANY_MORE = Moment(
    {_ANN: 0.0, _BEN: 13.0},
    [
        contending.live(0, {HOST: 1}, name="live0", account=_ANN),
        contending.live(1, {HOST: 6}, name="live1", priority=60, account=_ANN),
        contending.live(2, {HOST: 1}, name="live2", priority=60, account=_BEN),
    ],
    [contending.job("wait0", 2, priority=60, account=_BEN, waited_s=PATIENCE_S)],
)


@settings(max_examples=80)
@given(moments())
@example(NOT_FIRST_ANY_MORE)
def test_who_made_room_comes_after_the_job_that_needed_it(moment: Moment) -> None:
    """As soon as they have saved, if nothing else happened meanwhile. Else they would make room for it for ever."""
    decided, _ = moment.decide()
    assume(decided.preemptions)
    first = decided.preemptions[0]  # what a pass decides for the jobs behind depends on this
    after, looked_at = moment.after(set(first.attempt_ids)).decide()
    placed = {placement.job_id for placement in after.placements}
    for number in first.attempt_ids:
        made_room = moment.live[number].job_id
        assert made_room not in placed or looked_at.index(first.job_id) < looked_at.index(made_room)
