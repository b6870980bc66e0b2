"""Whose turn it is in the fair queue, as jobs are placed. Pure; called by `jobs.scheduling.fair_queue`."""

import heapq
from collections.abc import Iterator, Mapping
from typing import Protocol

from jobs.scheduling.contenders import Account, QueuedJob

Key = tuple[float | str, ...]


class Rules(Protocol):
    """What decides whose turn it is."""

    def key(self, job: QueuedJob) -> Key:
        """The sort key of all that wait."""

    def use_of(self, account: Account) -> float:
        """What the account used, relative to what it is entitled to."""

    def is_over(self, account: Account) -> bool:
        """Whether the account is over its share."""


class Turns:
    """The first job of each lane, the one whose turn it is first. Only lanes whose turn may have changed move.

    When a job is placed, its account has used more, and so have all together. So its own jobs move back. Accounts that
    are over their shares may be within them now: those that are the least over become so first.
    """

    def __init__(self, rules: Rules, first: Iterator[QueuedJob], lanes: Mapping[Account, Iterator[QueuedJob]]) -> None:
        self._rules = rules
        self._lanes: dict[Account | None, Iterator[QueuedJob]] = {None: first} | dict(lanes)
        self._number = {account: number for number, account in enumerate(self._lanes)}
        self._heads: dict[Account | None, tuple[Key, QueuedJob]] = {}
        self._heap: list[tuple[Key, int, Account | None]] = []  # entries that are not of a head any more are void
        # A heap of the accounts over their shares, by their use.
        self._over = [(rules.use_of(account), account) for account in lanes if rules.is_over(account)]
        heapq.heapify(self._over)
        self._are_over = {account for _, account in self._over}
        for account in self._lanes:
            self.fill(account)

    def pop(self) -> tuple[Account | None, QueuedJob] | None:
        """Take the job whose turn it is, and its lane. None: there is none."""
        while self._heap:
            key, _, lane = heapq.heappop(self._heap)
            if lane in self._heads and self._heads[lane][0] == key:
                return lane, self._heads.pop(lane)[1]
        return None

    def fill(self, lane: Account | None) -> None:
        """Let the next job of a lane wait for its turn."""
        job = next(self._lanes[lane], None)
        if job is not None:
            self._put(lane, job)

    def placed(self, account: Account) -> None:
        """A job of this account was placed."""
        self._move(account)
        if self._rules.is_over(account) and account not in self._are_over:
            self._are_over.add(account)
            heapq.heappush(self._over, (self._rules.use_of(account), account))
        while self._over:
            use, least = self._over[0]
            if not self._rules.is_over(least):
                heapq.heappop(self._over)
                self._are_over.remove(least)
                self._move(least)
            elif use != self._rules.use_of(least):
                heapq.heapreplace(self._over, (self._rules.use_of(least), least))
            else:
                break

    def _move(self, lane: Account) -> None:
        if lane in self._heads:
            self._put(lane, self._heads[lane][1])

    def _put(self, lane: Account | None, job: QueuedJob) -> None:
        key = self._rules.key(job)
        self._heads[lane] = key, job
        heapq.heappush(self._heap, (key, self._number[lane], lane))
