"""The fast ways of a pass decide as the plain rules do."""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import Fair, Fifo
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.reservations import Ending, free_after, or_infinite
from jobs.scheduling.slots import ClassSlots, Counts, HostSlots, Shares, SlotClass, SlotRequest
from tests.slot_classes import alike
from tests.unit.jobs.scheduling import contending
from tests.unit.jobs.scheduling.contending import lanes_of, live

SLOTS = 4


def accounts_of(numbers: random.Random) -> list[Account]:
    return [Account(f"p{number % 3}", f"u{number}") for number in range(numbers.randint(1, 30))]


def jobs_of(numbers: random.Random, accounts: Sequence[Account]) -> list[QueuedJob]:
    return [
        QueuedJob(
            f"j{number}", (-numbers.choice((50, 50, 60)), float(number), f"j{number}"),
            SlotRequest(numbers.choice((1, 1, 2, 4, 8, 12))), numbers.choice((None, 100.0, 5000.0)),
            numbers.choice(accounts), level=numbers.randint(0, 2),
        )
        for number in range(numbers.randint(1, 60))
    ]  # fmt: skip


def live_of(numbers: random.Random, accounts: Sequence[Account], hosts: int) -> list[LiveAttempt]:
    """Attempts that hold about all slots of the hosts."""
    attempts = []
    for host in range(hosts):
        free = SLOTS - numbers.choice((0, 0, 0, 1))
        while free > 0:
            gpus = min(numbers.choice((1, 1, 2, 4)), free)
            free -= gpus
            number = len(attempts) + 1
            order = (-numbers.choice((40, 50, 50)), numbers.uniform(0, 60), f"r{number}")
            attempt = LiveAttempt(
                number, order, {SlotClass(f"h{host}", "gpu"): gpus}, numbers.choice((None, None, 50.0, 3000.0)),
                leaving=numbers.random() < 0.1, overdue=numbers.random() < 0.05, account=numbers.choice(accounts),
                level=numbers.randint(0, 2), undisturbed_s=numbers.choice((0.0, 0.0, 100.0)),
            )  # fmt: skip
            attempts.append(attempt)
    return attempts


def hosts_of(attempts: Sequence[LiveAttempt], hosts: int) -> list[HostSlots]:
    free = {SlotClass(f"h{host}", "gpu"): SLOTS for host in range(hosts)}
    for attempt in attempts:
        for slots, count in attempt.slots.items():
            free[slots] -= count
    return [HostSlots(of.host, (ClassSlots(of, tuple(range(count)), SLOTS),), "all") for of, count in free.items()]


def fair(numbers: random.Random, attempts: Sequence[LiveAttempt], jobs: Sequence[QueuedJob], hosts: int) -> Fair:
    wanting = {job.account for job in jobs}
    used_s = {account: numbers.choice((0.0, 1e3, 1e5, 1e6)) for account in wanting | {one.account for one in attempts}}
    return Fair(attempts, used_s, {"p1": 3.0}, {"gpu": hosts * SLOTS}, wanting=wanting)


def plainly_in_turn(rules: Fair, lanes: Mapping[Account, Sequence[QueuedJob]]) -> Iterator[QueuedJob]:
    """Each time the first of all heads."""
    left = {account: list(lane) for account, lane in lanes.items()}
    while heads := [lane[0] for lane in left.values() if lane]:
        job = min(heads, key=rules.key)
        yield left[job.account].pop(0)


class PlainPass(PlacementPass):
    """Looks at everything anew for each blocked job."""

    def _yielding(self, job: QueuedJob) -> list[LiveAttempt]:
        staying = [attempt for attempt in self._live if attempt.attempt_id not in self._leaving]
        return [attempt for attempt in staying if self._rules.yields(attempt, job)]

    def _fewest_to_preempt(
        self, request: SlotRequest, soon: Counts, yielding: Sequence[LiveAttempt]
    ) -> list[LiveAttempt]:
        def fits(leaving: Sequence[LiveAttempt]) -> Shares | None:
            return self._cluster.fit(request, free_after(soon, [attempt.slots for attempt in leaving]))

        yielding = sorted(yielding, key=lambda attempt: self._rules.sparing(attempt, request.gpus))
        counts = (count for count in range(1, len(yielding) + 1) if fits(yielding[:count]) is not None)
        count = next(counts, 0)
        taken = dict(fits(yielding[:count]) or ()).keys()
        needed = [attempt for attempt in yielding[:count] if attempt.slots.keys() & taken]
        for attempt in needed[::-1]:
            others = [other for other in needed if other is not attempt]
            if fits(others) is not None:
                needed = others
        return needed

    def _comes_free(self, request: SlotRequest) -> tuple[float, Counts]:
        ids = sorted((attempt.attempt_id, attempt) for attempt in self._live)
        endings = [Ending(0.0, one.slots) for one in self._live if one.attempt_id in self._leaving]
        endings += [Ending(or_infinite(one.ends_in_s), one.slots) for id_, one in ids if id_ not in self._leaving]
        endings += self._endings
        endings += [Ending(reservation.until_s, reservation.shares) for reservation in self.reservations]
        endings.sort(key=lambda ending: ending.in_s)
        for count in range(len(endings) + 2):
            at_s = endings[count - 1].in_s if 0 < count <= len(endings) else 0.0
            if self._cluster.fit(request, self._future([ending.slots for ending in endings[:count]])) is not None:
                break
        if not math.isinf(at_s):
            count += sum(ending.in_s == at_s for ending in endings[count:])
        return at_s, self._future([ending.slots for ending in endings[:count]])


@pytest.mark.parametrize("seed", range(100))
def test_a_pass_decides_as_one_that_looks_at_everything_anew(seed: int) -> None:
    """And each looks at the jobs in the sequence of their keys, as accounts get slots."""
    decisions = []
    for of_pass in (PlainPass, PlacementPass):
        numbers = random.Random(seed)  # noqa: S311 - nothing secret
        accounts = accounts_of(numbers)
        jobs, attempts = jobs_of(numbers, accounts), live_of(numbers, accounts, 8)
        rules = fair(numbers, attempts, jobs, 8) if seed % 4 else Fifo()
        decided = of_pass(hosts_of(attempts, 8), attempts, rules=rules)
        turns: Iterable[QueuedJob] = sorted(jobs, key=lambda job: job.order)
        if isinstance(rules, Fair):
            lanes = lanes_of(jobs)
            of_fast = rules.in_turn({account: iter(lane) for account, lane in lanes.items()})
            turns = plainly_in_turn(rules, lanes) if of_pass is PlainPass else of_fast
        looked_at: list[str] = []
        decided.take(looked_at.append(job.job_id) or job for job in turns)  # type: ignore[func-returns-value]
        decisions.append((looked_at, decided.placements, decided.preemptions, decided.reservations))
    assert decisions[0] == decisions[1]


def test_a_job_far_down_gets_slots_of_its_own_account_although_many_accounts_wait_before_it() -> None:
    accounts = [Account("p", f"u{number:02}") for number in range(40)]
    last = accounts[-1]
    jobs = [contending.job(f"b{number}", account=account, level=1) for number, account in enumerate(accounts[:-1])]
    old = contending.job("a", account=last, level=1)
    attempts = [live(1, {"h0": 1}, account=accounts[0], level=1), live(2, {"h0": 2}, name="c", account=last, level=1)]
    used_s = dict.fromkeys(accounts, 1000.0) | {last: 1050.0}
    rules = Fair(attempts, used_s, {}, {"gpu": 2000}, wanting=accounts)
    assert not rules.is_over(last)
    decided = PlacementPass([alike("h0", "gpu", 0, 3)], attempts, rules=rules)
    decided.take(rules.in_turn({one.account: iter([one]) for one in [*jobs, old]}))
    assert [(one.job_id, one.attempt_ids) for one in decided.preemptions] == [("a", (2,))]
