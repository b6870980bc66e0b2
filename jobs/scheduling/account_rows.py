"""What the fair queue needs to know of accounts, read from the rows, and what it decided about them.

Called by the dispatcher, in its transaction.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, func, select, text, true, tuple_, union_all
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, Project, UsageHour
from jobs.lifecycle.rights_now import may_train
from jobs.scheduling.allowances import Allowances
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import OLDEST, PATIENCE_S, AccountUse, Fair
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.placement_rows import IN_LINE, LANE_BEGINS, lane_pages, next_page, seconds

_HALF_LIVES = 7  # what was used before counts less than a hundredth
_OLDEST_READ = 8 * OLDEST  # some of them may wait for hosts that do not exist
_FIRST_ROWS = 250  # jobs that are read at first: most passes place few
_PAGE = 250  # jobs of an account
_MOST_ROWS = 500  # of all accounts in one statement
_LITTLE = 0.05
_REFRESHED_AFTER = timedelta(seconds=30)  # figures that people look at may be so old


def accounts_in_line(session: Session) -> set[Account]:
    """The accounts that have jobs in the queue."""
    return {Account(project, user) for project, user in session.execute(_accounts_in_line())}


def fair_rules(
    session: Session,
    wanting: Collection[Account],
    live: Sequence[LiveAttempt],
    *,
    slots: Mapping[str, int],
    half_life_s: float,
) -> Fair:
    """The rules of the queue by what each account that has jobs here has used. `wanting`: has some in the queue.

    `slots` by kind.
    """
    used_s = dict.fromkeys([*wanting, *(attempt.account for attempt in live)], 0.0)
    used_s |= {account: slot_s for account, slot_s in used_by_accounts(session, half_life_s) if account in used_s}
    shares = session.execute(_unequal_shares())
    by_project = {name: share for name, share in shares}  # noqa: C416 - a row is no pair to the type checker
    return Fair(live, used_s, by_project, slots, wanting=wanting)


@cache
def _accounts_in_line() -> Select[Any]:
    """The accounts with queued jobs, one after the other from the index: that takes as long as there are accounts."""
    first = select(Job.project, Job.owner).where(IN_LINE).order_by(Job.project, Job.owner).limit(1)
    lanes = first.cte("lanes", recursive=True)
    behind = tuple_(Job.project, Job.owner) > tuple_(lanes.c.project, lanes.c.owner)
    following = first.where(behind).lateral("following")
    lanes = lanes.union_all(select(following).select_from(lanes.join(following, true())))
    return select(lanes).where(may_train(lanes.c.owner, lanes.c.project))


@cache
def _unequal_shares() -> Select[str, float]:
    return select(Project.name, Project.share).where(Project.share != 1.0)


def used_by_accounts(session: Session, half_life_s: float) -> list[tuple[Account, float]]:
    """The decayed slot-seconds of each account. One statement, so that an attempt that ends now counts once.

    Nothing counts more than when it was used, also if the clock was set back.
    """
    rows = session.execute(_used_by_accounts(half_life_s))
    return [(Account(project, user), float(slot_s)) for project, user, slot_s in rows]


@cache
def _used_by_accounts(half_life_s: float) -> Select[Any]:
    decay = math.log(2) / half_life_s

    def ago_s(at: SQLColumnExpression[datetime]) -> ColumnElement[float]:
        return func.least(func.greatest(seconds(func.now() - at), 0.0), _HALF_LIVES * half_life_s)

    # There may be a row for each hour of each user: the numbers are simple on purpose.
    hour_s, now_s = func.date_part("epoch", UsageHour.hour), func.date_part("epoch", func.now())
    part = func.exp(func.least(decay * (hour_s - now_s), 0.0))
    ended = select(
        UsageHour.project, UsageHour.user_name.label("owner"), (UsageHour.slot_seconds * part).label("slot_s")
    ).where(UsageHour.hour > func.now() - timedelta(seconds=_HALF_LIVES * half_life_s))
    held_s = (1 - func.exp(-decay * ago_s(Attempt.created_at))) / decay  # the integral of 2^(-t / half_life_s)
    going_on = (
        select(Job.project, Job.owner, (Attempt.gpus * held_s).label("slot_s"))
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Attempt.ended_at.is_(None))
    )
    both = union_all(ended, going_on).subquery()
    return select(both.c.project, both.c.owner, func.sum(both.c.slot_s)).group_by(both.c.project, both.c.owner)


def jobs_in_turn(
    session: Session, rules: Fair, decided: PlacementPass, *, pools: Collection[str]
) -> Iterator[QueuedJob]:
    """The queue in its sequence. It is read in pages, each account's by itself, as far as the caller asks for it."""
    allowances = decided.allowances
    lanes = _Lanes(session, rules, allowances, pools)
    behind = [account for account in rules.wanting if not rules.has_had_its_share(account)]
    waited = next_page(
        session, None, limit=_OLDEST_READ, without=allowances.over, full=allowances.full, pools=pools,
        among=behind, queued_for_s=PATIENCE_S,
    )  # fmt: skip
    oldest = [job for job in waited.jobs if decided.may_ever_hold(job)]
    return rules.in_turn({account: lanes.jobs_of(account) for account in rules.wanting}, oldest)


class _Lanes:
    """The jobs of each account, read as far as they are asked for. One statement reads those of many accounts.

    The first one reads the first jobs of all. Whenever an account has no more, the next one reads on for it, and for
    those whose jobs that are not read yet come next.
    """

    def __init__(self, session: Session, rules: Fair, allowances: Allowances, pools: Collection[str]) -> None:
        self._session = session
        self._rules = rules
        self._allowances = allowances
        self._pools = pools
        self._places = dict.fromkeys(rules.wanting, LANE_BEGINS)  # without accounts that were read to their ends
        self._unread = {account: deque[QueuedJob]() for account in rules.wanting}
        self._limit = max(_FIRST_ROWS // max(len(self._places), 1), 1)  # so many jobs of an account were read last
        self._limits = dict.fromkeys(rules.wanting, self._limit)  # and so many are read next
        self._rows = _FIRST_ROWS  # so many of all
        self._begun = False

    def jobs_of(self, account: Account) -> Iterator[QueuedJob]:
        """Its jobs in their sequence. It ends when its project is over its quota."""
        unread = self._unread[account]
        while account.project not in self._allowances.over:
            if not unread and account in self._places:
                self._read_more(account)
            if not unread:
                return
            yield unread.popleft()

    def _read_more(self, account: Account) -> None:
        over = self._allowances.over
        self._limit = limit = max(self._limits[account], self._limit // 2)
        if self._begun:
            soon = [one for one in self._places if one.project not in over]
            soon.sort(key=lambda one: (one != account, self._rules.key_after(one, self._places[one])))
            places = {one: self._places.pop(one) for one in soon[: max(self._rows // limit, 1)]}
            self._rows = min(2 * self._rows, _MOST_ROWS)
        else:
            places, self._places, self._begun = self._places, {}, True
        full = self._allowances.full
        pages = lane_pages(self._session, places, limit=limit, full=full, pools=self._pools)
        for one, page in pages.items():
            self._unread[one].extend(page.jobs)
            self._limits[one] = min(2 * limit, _PAGE)
            if page.after is not None:
                self._places[one] = page.after


def store_standings(session: Session, standings: Mapping[Account, AccountUse]) -> None:
    """Store the accounts that have jobs here, for those who look at the queue. None: the queue is not fair.

    Rows whose figures changed only a little are written once in a while.
    """
    values = {
        "projects": [account.project for account in standings],
        "users": [account.user for account in standings],
        "used_slot_s": [use.used_slot_s for use in standings.values()],
        "used_parts": [use.used_part for use in standings.values()],
        "entitled_parts": [use.entitled_part for use in standings.values()],
        "are_over": [use.is_over for use in standings.values()],
        "little": _LITTLE,
        "refreshed_after": _REFRESHED_AFTER,
    }
    session.execute(_STORE_STANDINGS, values)


_STORE_STANDINGS = text("""
    WITH standings AS (
        SELECT * FROM unnest(
            CAST(:projects AS varchar[]), CAST(:users AS varchar[]), CAST(:used_slot_s AS float8[]),
            CAST(:used_parts AS float8[]), CAST(:entitled_parts AS float8[]), CAST(:are_over AS boolean[])
        ) AS standings (project, user_name, used_slot_s, used_part, entitled_part, is_over)
    ), gone AS (
        DELETE FROM account_standings WHERE (project, user_name) NOT IN (SELECT project, user_name FROM standings)
    )
    INSERT INTO account_standings AS stored (project, user_name, used_slot_s, used_part, entitled_part, is_over)
    SELECT * FROM standings
    ON CONFLICT (project, user_name) DO UPDATE SET used_slot_s = excluded.used_slot_s, used_part = excluded.used_part,
        entitled_part = excluded.entitled_part, is_over = excluded.is_over, at = now()
    WHERE stored.is_over != excluded.is_over OR stored.at < now() - :refreshed_after
        OR round(stored.used_part / :little) != round(excluded.used_part / :little)
""")
