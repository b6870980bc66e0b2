"""Turns in the fair queue: who made room is not placed before the job that needed it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import PATIENCE_S, Fair
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.slots import HostSlots, SlotClass, SlotRequest
from tests.slot_classes import alike
from tests.unit.jobs.scheduling.contending import job, lanes_of, live

HOST, SLOTS = "h", 8
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
        wanting = {job.account for job in self.queue}
        here = wanting | {attempt.account for attempt in self.live}
        used_s = {account: self.used_s[account] for account in here}
        rules = Fair(self.live, used_s, {"q": 2.0}, {"gpu": SLOTS}, wanting=wanting)
        decided, looked_at = PlacementPass([self._host()], self.live, rules=rules), list[str]()

        def in_turn() -> Iterator[QueuedJob]:
            lanes = {account: iter(lane) for account, lane in lanes_of(self.queue).items()}
            for one in rules.in_turn(lanes, sorted(self.queue, key=lambda job: job.order)):
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
    accounts = {attempt.account for attempt in attempts} | {job.account for job in queue}
    used_s = {account: draw(st.floats(0, 1e5)) for account in sorted(accounts, key=str)}
    return Moment(used_s, attempts, queue)


_ANN, _BEN = Account("p", "ann"), Account("q", "ben")
# A job that comes first because it waited, until others make room for it: then its account used more than its part.
NOT_FIRST_ANY_MORE = Moment(
    {_ANN: 0.0, _BEN: 13.0},
    [
        live(0, {HOST: 1}, name="live0", account=_ANN),
        live(1, {HOST: 6}, name="live1", priority=60, account=_ANN),
        live(2, {HOST: 1}, name="live2", priority=60, account=_BEN),
    ],
    [job("wait0", 2, priority=60, account=_BEN, waited_s=PATIENCE_S)],
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
