"""The rules of the queue: which job comes first, and which attempts make room for it. Pure.

`Fifo` is the queue by age. `Fair` is the queue by shares between accounts, and by attained service within them.
`jobs.scheduling.placement` asks them; docs/scheduling.md has the rules.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from jobs.model.attained_service import LEVELS_SLOT_S
from jobs.scheduling.contenders import Account, LiveAttempt, Order, QueuedJob
from jobs.scheduling.turns import Key, Turns

PATIENCE_S = 12 * 3600.0  # a job that has waited so long, and is one of the oldest, comes first
OLDEST = 32  # so many jobs are the oldest
_OF_USAGE = 0.1  # a slot that an account holds counts as this part of what was used of each slot lately
_LEAST_USED_S = 1.0  # and at least as this many slot-seconds
_ROUNDING_S = 1e-6
_TOLERANCE = 1.1  # an account that used so many times what it is entitled to is over its share
# Tiers: a job of a lower one comes first, and attempts of a higher one make room for it.
_FIRST, _NEW = 0, 1  # jobs that waited too long; then a tier for each level
_OVER = _NEW + len(LEVELS_SLOT_S) + 1  # accounts over their share


@dataclass(frozen=True)
class AccountUse:
    """The decayed slot-seconds of an account, and its part of what all accounts used that have jobs here."""

    used_slot_s: float
    used_part: float
    entitled_part: float
    is_over: bool  # its jobs come after those of the others


class Rules(Protocol):
    """The rules of a queue."""

    def placed(self, job: QueuedJob, gpus: int) -> None:
        """Take note that the job got slots."""

    def standing(self, job: QueuedJob) -> Hashable:
        """Equal for jobs for which the same attempts make room, or fewer for the later one."""

    def yields(self, attempt: LiveAttempt, job: QueuedJob) -> bool:
        """Whether the attempt may be preempted for the job."""

    def sparing(self, attempt: LiveAttempt, gpus: int) -> tuple[float, ...]:
        """A sort key: attempts with a low one are preempted first for a job that needs so many slots."""


class Fifo:
    """By priority, then by age. A higher priority preempts, and so does a job that an overdue attempt passed."""

    def placed(self, job: QueuedJob, gpus: int) -> None:
        """Nothing depends on it."""

    def standing(self, job: QueuedJob) -> Hashable:
        """Its priority."""
        return job.priority

    def yields(self, attempt: LiveAttempt, job: QueuedJob) -> bool:
        """Whether the attempt may be preempted for the job."""
        return -attempt.order[0] < job.priority or (attempt.overdue and job.order < attempt.order)

    def sparing(self, attempt: LiveAttempt, gpus: int) -> tuple[float, ...]:
        """The lowest priority first, then the youngest attempt."""
        return -attempt.order[0], -attempt.attempt_id


class Fair(Fifo):
    """By priority, then by tier, then by the usage of the account, then by age.

    A job is in the tier of its level. Its level is that of the service that it has attained. The jobs of an account
    that is over its share are in the last tier. The oldest jobs are in the first tier once they have waited for
    `PATIENCE_S`, unless their account used more than its part.

    An attempt makes room for jobs that come before its own job would, if it waited. Within an account these are the
    jobs of lower levels, and the older ones of its level, except among new jobs. The attempts that an account needs for
    its share make room for jobs of other accounts only by their levels. Each is left undisturbed for some time before.
    """

    def __init__(
        self,
        live: Sequence[LiveAttempt],
        used_s: Mapping[Account, float],
        shares: Mapping[str, float],
        slots: Mapping[str, int],
        *,
        wanting: Collection[Account] | None = None,
    ) -> None:
        """`used_s` has every account that has jobs here, with its decayed slot-seconds; `shares` are the projects'.

        A project without a share has 1. `slots` is the number of all slots, by kind. `wanting` are the accounts that
        have jobs in the queue; None: all. Those of the others that they do not hold are for the wanting ones.
        """
        self.wanting: Collection[Account] = used_s.keys() if wanting is None else wanting
        staying = [attempt for attempt in live if not attempt.leaving]
        all_slots = sum(slots.values())
        idle = used_s.keys() - set(self.wanting)
        held = Counter[Account]()
        for attempt in staying:
            held[attempt.account] += attempt.gpus
        self._parts = _parts(used_s, shares)
        of_idle = {account: held[account] / (all_slots or 1) for account in idle}
        self._entitled, self._grown = _entitled(self._parts, of_idle)
        self._used_s = defaultdict(float, used_s)
        self._slot_used_s = max(sum(used_s.values()) / (all_slots or 1) * _OF_USAGE, _LEAST_USED_S)
        self._charged_s = defaultdict[Account, float](float)  # what is in `_used_s` for slots that the accounts hold
        self._all_charged_s = 0.0
        self._most_use: dict[Account, float] = {}  # remembered until the next charge, like the two after it
        self._least_use: dict[Account, float] = {}
        self._sorted_uses: list[float] | None = None
        for attempt in staying:
            self._charge(attempt.account, attempt.gpus)
        self._all_used_s = sum(self._used_s.values())
        self._beyond_share = self._attempts_beyond_share(staying, slots)
        self._accounts_beyond = {one.account for one in staying if one.attempt_id in self._beyond_share}
        # Of the attempts of each account and level that may make room for older jobs of it, the place of the last.
        self._last_own: dict[Account, dict[int, Order]] = defaultdict(dict)
        for attempt in staying:
            if attempt.level > 0 and attempt.undisturbed_s <= 0:
                last = self._last_own[attempt.account]
                last[attempt.level] = max(attempt.order, last.get(attempt.level, attempt.order))
        self._first: set[str] = set()

    def standings(self) -> dict[Account, AccountUse]:
        """What each account used, and what it is entitled to."""
        whole = self._all_used_s or 1.0
        return {
            account: AccountUse(self._used_s[account], self._used_s[account] / whole, entitled, self.is_over(account))
            for account, entitled in self._entitled.items()
        }

    def in_turn(
        self, lanes: Mapping[Account, Iterator[QueuedJob]], oldest: Sequence[QueuedJob] = ()
    ) -> Iterator[QueuedJob]:
        """The jobs of all accounts in their sequence, which changes as they are `placed`.

        Each account's jobs are sorted by priority, level and age; the `oldest` jobs by priority and age.
        """
        patient = [job for job in oldest if job.waited_s >= PATIENCE_S and not self.has_had_its_share(job.account)]
        first = patient[:OLDEST]
        self._first = {job.job_id for job in first}
        turns = Turns(self, iter(first), lanes)
        done: set[str] = set()  # of the oldest, which are in the lanes too
        while (turn := turns.pop()) is not None:
            lane, job = turn
            if job.job_id not in done:
                done |= self._first & {job.job_id}
                used_s = self._all_used_s
                yield job
                if self._all_used_s != used_s:
                    turns.placed(job.account)
            turns.fill(lane)

    def placed(self, job: QueuedJob, gpus: int) -> None:
        """Charge the account of a job that gets slots: otherwise one account would get all that are free now."""
        self._charge(job.account, gpus)
        self._all_used_s += self._slot_used_s * gpus

    def standing(self, job: QueuedJob) -> Hashable:
        """Its priority and its tier once others made room; in the last one, how many accounts are further over.

        And its account, if attempts make room for it that do so for no other account.
        """
        if self._stays_first(job):
            return job.priority, _FIRST, 0, None
        use, last = self._most_use_of(job.account), self._last_own.get(job.account, {})
        if use <= _TOLERANCE:
            is_before_own = job.order < last.get(job.level, job.order)
            return job.priority, _NEW + job.level, 0, job.account if is_before_own else None
        is_before_own = any((job.level, job.order) < own for own in last.items())
        uses = self._uses_beyond_share()
        return job.priority, _OVER, len(uses) - bisect_right(uses, use), job.account if is_before_own else None

    def yields(self, attempt: LiveAttempt, job: QueuedJob) -> bool:
        """Whether the attempt may be preempted for the job."""
        if super().yields(attempt, job):
            return True
        if -attempt.order[0] > job.priority or attempt.undisturbed_s > 0:
            return False
        if self._stays_first(job):
            return True
        if job.account == attempt.account:
            return (job.level, job.order) < (attempt.level, attempt.order) and attempt.level > 0
        use, use_of_attempt = self._most_use_of(job.account), self._least_use_of(attempt.account)
        wanted = _OVER if use > _TOLERANCE else _NEW + job.level
        is_beyond = attempt.attempt_id in self._beyond_share and use_of_attempt > _TOLERANCE
        held = _OVER if is_beyond else _NEW + attempt.level
        if wanted == held == _OVER:
            return use < use_of_attempt
        return wanted < held

    def sparing(self, attempt: LiveAttempt, gpus: int) -> tuple[float, ...]:
        """The lowest priority first, then the last tier, then what is not wider than needed, then the newest job."""
        priority, created_s, _ = attempt.order
        return -priority, -self._tier_of(attempt), attempt.gpus > gpus, -created_s, -attempt.attempt_id

    def key(self, job: QueuedJob) -> Key:
        """The sort key of all that wait, which changes as jobs are `placed`."""
        tier = self._tier(job)
        priority, created_s, job_id = job.order
        if tier == _FIRST:
            return priority, tier, 0.0, 0, created_s, job_id
        return priority, tier, self.use_of(job.account), job.level, created_s, job_id

    def key_after(self, account: Account, place: tuple[int, int, datetime, str]) -> tuple[Any, ...]:
        """A sort key of the jobs of an account that come after the one with this place."""
        priority, level, *age = place
        return -priority, _OVER if self.is_over(account) else level, self.use_of(account), level, *age

    def _tier(self, job: QueuedJob) -> int:
        if job.job_id in self._first:
            return _FIRST
        return _OVER if self.is_over(job.account) else _NEW + job.level

    def _tier_of(self, attempt: LiveAttempt) -> int:
        return _OVER if attempt.attempt_id in self._beyond_share else _NEW + attempt.level

    def use_of(self, account: Account) -> float:
        """What it used, relative to what it is entitled to."""
        return self._used_s[account] / (self._entitled.get(account, 1.0) or 1e-9)

    def _most_use_of(self, account: Account) -> float:
        """What it used of what it is entitled to, once others made room: they hold less then, and all want slots.

        With the figures of now, a job would come after those that had made room for it. They would get their slots
        back, and make room for it again and again.
        """
        if account not in self._most_use:
            self._most_use[account] = self._used_s[account] / (self._least_entitled_s(account) or 1e-9)
        return self._most_use[account]

    def _stays_first(self, job: QueuedJob) -> bool:
        """Whether it is in the first tier, and will still be once others made room."""
        account = job.account
        return job.job_id in self._first and self._used_s[account] <= self._least_entitled_s(account) + _ROUNDING_S

    def _least_entitled_s(self, account: Account) -> float:
        """The slot-seconds to which it is entitled once all others made room, and want slots."""
        whole_s = self._all_used_s - self._all_charged_s + self._charged_s[account]
        return self._parts.get(account, 1.0) * whole_s

    def _least_use_of(self, account: Account) -> float:
        """What it used of what it is entitled to, once it made room with all that it holds, and wants slots."""
        if account not in self._least_use:
            held_s = self._charged_s[account]
            entitled = self._grown(account) if account in self._entitled else 1.0
            whole_s = (entitled * (self._all_used_s - held_s)) or 1e-9
            self._least_use[account] = (self._used_s[account] - held_s) / whole_s
        return self._least_use[account]

    def _uses_beyond_share(self) -> list[float]:
        """The least use of each account of which attempts make room because it is over its share, sorted."""
        if self._sorted_uses is None:
            uses = (self._least_use_of(account) for account in self._accounts_beyond)
            self._sorted_uses = sorted(use for use in uses if use > _TOLERANCE)
        return self._sorted_uses

    def _charge(self, account: Account, gpus: int) -> None:
        self._used_s[account] += self._slot_used_s * gpus
        self._charged_s[account] += self._slot_used_s * gpus
        self._all_charged_s += self._slot_used_s * gpus
        self._most_use, self._least_use, self._sorted_uses = {}, {}, None

    def is_over(self, account: Account) -> bool:
        """Whether it used clearly more than its part of what all these accounts used lately."""
        return self._is_above(account, _TOLERANCE)

    def has_had_its_share(self, account: Account) -> bool:
        """Whether it used more than its part of what all these accounts used lately."""
        return self._is_above(account, 1.0)

    def _is_above(self, account: Account, times: float) -> bool:
        entitled_s = self._entitled.get(account, 1.0) * self._all_used_s
        return self._used_s[account] > times * entitled_s + _ROUNDING_S

    def _attempts_beyond_share(self, staying: Sequence[LiveAttempt], slots: Mapping[str, int]) -> set[int]:
        """Of accounts over their shares, the newest attempts, without which they would still hold their share."""
        over = {account for account in {attempt.account for attempt in staying} if self.is_over(account)}
        of_over = [attempt for attempt in staying if attempt.account in over]
        held = Counter[tuple[Account, str]]()
        for attempt in of_over:
            held[attempt.account, attempt.kind] += attempt.gpus
        beyond = set()
        for attempt in sorted(of_over, key=lambda attempt: attempt.order, reverse=True):
            account, kind = attempt.account, attempt.kind
            left = held[account, kind] - attempt.gpus
            if left >= self._entitled.get(account, 1.0) * slots.get(kind, 0):
                held[account, kind] = left
                beyond.add(attempt.attempt_id)
        return beyond


def _parts(accounts: Collection[Account], shares: Mapping[str, float]) -> dict[Account, float]:
    """The part of all slots to which each account is entitled if all want slots.

    Projects are entitled by their shares, the users of one alike.
    """
    users = Counter(account.project for account in accounts)
    whole = sum(shares.get(project, 1.0) for project in users)
    return {account: shares.get(account.project, 1.0) / whole / users[account.project] for account in accounts}


def _entitled(
    parts: Mapping[Account, float], at_most: Mapping[Account, float]
) -> tuple[dict[Account, float], Callable[[Account], float]]:
    """The part of all slots to which each account is entitled if some get `at_most` a part.

    The others share what those leave. Also says what a single account would be entitled to if it wanted more.
    """
    capped = {account: min(parts[account], part) for account, part in at_most.items()}
    left, wanted = 1.0 - sum(capped.values()), sum(part for account, part in parts.items() if account not in capped)
    entitled = {
        account: capped[account] if account in capped else part * left / wanted for account, part in parts.items()
    }

    def if_it_wants(account: Account) -> float:
        if account not in capped:
            return entitled[account]
        return parts[account] * (left + capped[account]) / (wanted + parts[account])

    return entitled, if_it_wants
