"""The sequence of the queue, and the places of jobs in it. Called by the api, for one job, a page of jobs or the queue.

Most jobs are only counted. The queue is a sequence of *stretches*: jobs of one priority whose turn comes together. In a
stretch jobs come by age. So the place of a job is the number of jobs in the stretches before its own, and of the older
ones in its own. In a fair queue a stretch has the jobs of one level of the users that have had the same part of their
shares. In a queue by age it has all jobs of a priority. The rules are those of `jobs.scheduling.fair_queue`; what users
have had is what the last pass of the dispatcher stored.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from jobs.scheduling.contenders import Account
from jobs.scheduling.fair_queue import AccountUse
from jobs.scheduling.queue_rows import (
    Lane,
    Moment,
    account_uses,
    counts_between,
    first_jobs,
    lane_counts,
    lanes_of,
    oldest_jobs,
    ranks_among_equals,
)

_UNKNOWN = AccountUse(0.0, 0.0, 1.0, is_over=False)  # an account of which no pass knows yet has used nothing lately


class Turn(NamedTuple):
    """The sort key of the jobs of one priority. Those with equal turns come by age.

    `used` is what the job's user had, relative to what the user is entitled to.
    """

    is_of_others: bool = True  # False: it is one of the oldest jobs that waited for 12 hours
    is_over: bool = False  # its user is over the share
    level_if_within: int = 0
    used: float = 0.0
    level: int = 0


_OLDEST_JOBS = Turn(is_of_others=False)


@dataclass(frozen=True)
class Stretch:
    """Jobs that come one after the other, by age. `before` is the number of all jobs that come before them."""

    priority: int
    turn: Turn
    turn_number: int  # from 1; equal for equal turns
    before: int
    jobs: Mapping[Lane, int]  # how many it has
    oldest: Sequence[Moment] = ()  # the jobs themselves, if these are the oldest jobs

    @property
    def end(self) -> int:
        """The place of its last job."""
        return self.before + sum(self.jobs.values())


@dataclass(frozen=True)
class Place:
    """The place of a job in the queue, from 1, and the stretch that the job is in."""

    number: int
    stretch: Stretch


class Position(NamedTuple):
    """Where a job is, or was, in the sequence: a page of the queue begins behind it. It is part of a cursor."""

    is_oldest: bool  # one of the oldest jobs, which come first
    priority: int
    project: str
    user: str
    level: int
    created_at: datetime
    job_id: str

    @property
    def lane(self) -> Lane:
        """The lane of the job."""
        return Lane(self.priority, Account(self.project, self.user), self.level)


class QueueSequence:
    """The queue as it is in a transaction of the session. Jobs may come and go from one statement to the next."""

    def __init__(self, session: Session) -> None:
        """Count the jobs."""
        self._session = session
        self.uses = account_uses(session)  # empty: the queue is by age
        self._oldest = oldest_jobs(session) if self.uses else {}
        self._oldest_ids = [moment.job_id for moment in self._oldest]
        self.stretches = self._sorted(lane_counts(session))
        self._stretch_of = {lane: stretch for stretch in self.stretches if not stretch.oldest for lane in stretch.jobs}

    def begin_of(self, priority: int, turn: tuple[Any, ...] = ()) -> int:
        """How many jobs come before the first one of this priority whose turn begins so. There is such a job."""
        return self._begins[priority, turn]

    @cached_property
    def _begins(self) -> Mapping[tuple[int, tuple[Any, ...]], int]:
        begins: dict[tuple[int, tuple[Any, ...]], int] = {}
        for stretch in self.stretches:
            for length in range(len(stretch.turn)):
                begins.setdefault((stretch.priority, tuple(stretch.turn[:length])), stretch.before)
        return begins

    @property
    def total(self) -> int:
        """The number of jobs that have a place."""
        return self.stretches[-1].end if self.stretches else 0

    @cached_property
    def queued(self) -> Counter[Account]:
        """The number of jobs of each account that have a place."""
        queued = Counter[Account]()
        for stretch in self.stretches:
            for lane, count in stretch.jobs.items():
                queued[lane.account] += count
        return queued

    def use_of(self, account: Account) -> AccountUse:
        """What the account had, and what it is entitled to."""
        return self.uses.get(account, _UNKNOWN)

    def places(self, job_ids: Collection[str]) -> dict[str, Place]:
        """The places of these jobs, by id. Jobs that have none are left out."""
        wanted = set(job_ids)
        places = {
            moment.job_id: Place(stretch.before + number, stretch)
            for stretch in self.stretches
            for number, moment in enumerate(stretch.oldest, 1)
            if moment.job_id in wanted
        }
        lanes = lanes_of(self._session, wanted - places.keys())
        stretches = {moment: self._stretch_of[lane] for moment, lane in lanes.items() if lane in self._stretch_of}
        if not stretches:
            return places
        groups = {lane: stretch.before for stretch in stretches.values() for lane in stretch.jobs}
        times = sorted({moment.created_at for moment in stretches})
        older = counts_between(self._session, groups, times, without=self._oldest_ids)
        ranks = ranks_among_equals(self._session, groups, stretches, without=self._oldest_ids)
        for moment, stretch in stretches.items():
            if moment.job_id not in ranks:  # it has got slots since the first statement
                continue
            count = older[stretch.before][bisect_left(times, moment.created_at)]
            places[moment.job_id] = Place(stretch.before + count + ranks[moment.job_id], stretch)
        return places

    def jobs_after(
        self, last: Position | None = None, *, limit: int, project: str | None = None, owner: str | None = None
    ) -> list[tuple[str, Place]]:
        """The next jobs behind the `last` one of a page; only those of a project or an owner, if it is given.

        The last job may have left the queue.
        """

        def matches(lane: Lane) -> bool:
            return project in (None, lane.account.project) and owner in (None, lane.account.user)

        begin, after = (0, None) if last is None else self._behind(last)
        oldest: list[str] = []
        groups: dict[Lane, int] = {}
        missing = limit
        for stretch in self.stretches[begin:]:
            is_begun = after is not None and stretch.before == after[0]
            oldest += [
                moment.job_id
                for moment in stretch.oldest
                if matches(self._oldest[moment]) and (after is None or not is_begun or moment > after[1])
            ]
            lanes = {} if stretch.oldest else {lane: n for lane, n in stretch.jobs.items() if matches(lane)}
            groups |= dict.fromkeys(lanes, stretch.before)
            missing -= 0 if is_begun else sum(lanes.values())
            if missing <= 0:
                break
        jobs = first_jobs(self._session, groups, after=after, limit=limit, without=self._oldest_ids)
        places = self.places([*oldest, *jobs])
        return sorted(places.items(), key=lambda item: item[1].number)[:limit]

    def _behind(self, last: Position) -> tuple[int, tuple[int, Moment] | None]:
        """The index of the stretch that a page continues in, and behind which job of it; None: from its first one."""
        key = -last.priority, _OLDEST_JOBS if last.is_oldest else self._turn_of(last.lane)
        keys = [(-stretch.priority, stretch.turn) for stretch in self.stretches]
        begin = bisect_left(keys, key)
        if begin == len(keys) or keys[begin] != key:
            return begin, None
        return begin, (self.stretches[begin].before, Moment(last.created_at, last.job_id))

    def _sorted(self, counts: Mapping[Lane, int]) -> list[Stretch]:
        left = Counter(counts)
        jobs: dict[tuple[int, Turn], Counter[Lane]] = defaultdict(Counter)
        oldest: dict[int, list[Moment]] = defaultdict(list)
        for moment, lane in self._oldest.items():
            oldest[lane.priority].append(moment)
            jobs[-lane.priority, _OLDEST_JOBS][lane] += 1
            left[lane] -= 1
        for lane, count in left.items():
            if count > 0:
                jobs[-lane.priority, self._turn_of(lane)][lane] = count
        numbers = {turn: number for number, turn in enumerate(sorted({turn for _, turn in jobs}), 1)}
        stretches: list[Stretch] = []
        for key in sorted(jobs):
            priority, turn = -key[0], key[1]
            before = stretches[-1].end if stretches else 0
            first = oldest[priority] if turn == _OLDEST_JOBS else ()
            stretches.append(Stretch(priority, turn, numbers[turn], before, jobs[key], first))
        return stretches

    def _turn_of(self, lane: Lane) -> Turn:
        if not self.uses:
            return Turn()
        use = self.use_of(lane.account)
        used = use.used_part / max(use.entitled_part, 1e-9)
        return Turn(
            is_over=use.is_over, level_if_within=0 if use.is_over else lane.level, used=used, level=lane.level
        )  # fmt: skip
