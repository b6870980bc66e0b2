"""What the fair queue needs to know of accounts, read from the rows, and what it decided about them.

Called by the dispatcher, in its transaction.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, SQLColumnExpression, delete, func, or_, select, tuple_, union_all
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.db.tables import AccountStanding, Attempt, Job, Project, UsageHour
from jobs.lifecycle.rights_now import may_train
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import OLDEST, PATIENCE_S, AccountUse, Fair
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.placement_rows import IN_LINE, next_page, seconds

_HALF_LIVES = 10  # what was used before counts less than a thousandth
_OLDEST_READ = 8 * OLDEST  # some of them may wait for hosts that do not exist
_FIRST_PAGE = 25  # there may be many accounts, and most passes place few jobs
_LITTLE = 0.05
_REFRESHED_AFTER = timedelta(seconds=30)  # figures that people look at may be so old


def fair_rules(session: Session, live: Sequence[LiveAttempt], *, slots: Mapping[str, int], half_life_s: float) -> Fair:
    """The rules of the queue by what each account that has jobs here has used. `slots` by kind."""
    queued = select(Job.project, Job.owner).where(IN_LINE).distinct().subquery()
    may = select(queued.c.project, queued.c.owner).where(may_train(queued.c.owner, queued.c.project))
    wanting = {Account(project, user) for project, user in session.execute(may)}
    used_s = dict.fromkeys(wanting | {attempt.account for attempt in live}, 0.0)
    used_s |= {account: slot_s for account, slot_s in used_by_accounts(session, half_life_s) if account in used_s}
    shares = session.execute(select(Project.name, Project.share).where(Project.share != 1.0))
    by_project = {name: share for name, share in shares}  # noqa: C416 - a row is no pair to the type checker
    return Fair(live, used_s, by_project, slots, wanting=wanting)


def used_by_accounts(session: Session, half_life_s: float) -> list[tuple[Account, float]]:
    """The decayed slot-seconds of each account. One statement, so that an attempt that ends now counts once.

    Nothing counts more than when it was used, also if the clock was set back.
    """
    decay = math.log(2) / half_life_s

    def ago_s(at: SQLColumnExpression[datetime]) -> ColumnElement[float]:
        return func.least(func.greatest(seconds(func.now() - at), 0.0), _HALF_LIVES * half_life_s)

    ended = select(
        UsageHour.project, UsageHour.user_name.label("owner"),
        (UsageHour.slot_seconds * func.exp(-decay * ago_s(UsageHour.hour))).label("slot_s"),
    ).where(UsageHour.hour > func.now() - timedelta(seconds=_HALF_LIVES * half_life_s))  # fmt: skip
    held_s = (1 - func.exp(-decay * ago_s(Attempt.created_at))) / decay  # the integral of 2^(-t / half_life_s)
    going_on = (
        select(Job.project, Job.owner, (Attempt.gpus * held_s).label("slot_s"))
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Attempt.ended_at.is_(None))
    )
    both = union_all(ended, going_on).subquery()
    rows = session.execute(
        select(both.c.project, both.c.owner, func.sum(both.c.slot_s)).group_by(both.c.project, both.c.owner)
    )
    return [(Account(project, user), float(slot_s)) for project, user, slot_s in rows]


def jobs_in_turn(
    session: Session, rules: Fair, decided: PlacementPass, *, page: int, pools: Collection[str]
) -> Iterator[QueuedJob]:
    """The queue in its sequence. It is read in pages, each account's by itself, as far as the caller asks for it."""
    allowances = decided.allowances

    def lane(account: Account) -> Iterator[QueuedJob]:
        after, limit = None, _FIRST_PAGE
        while account.project not in allowances.over:
            found = next_page(
                session, after, limit=limit, without=allowances.over, full=allowances.full, pools=pools, account=account
            )
            yield from found.jobs
            after, limit = found.after, page
            if after is None:
                return

    behind = [account for account in rules.wanting if not rules.has_had_its_share(account)]
    waited = next_page(
        session, None, limit=_OLDEST_READ, without=allowances.over, full=allowances.full, pools=pools,
        among=behind, queued_for_s=PATIENCE_S,
    )  # fmt: skip
    oldest = [job for job in waited.jobs if decided.may_ever_hold(job)]
    return rules.in_turn({account: lane(account) for account in rules.wanting}, oldest)


def store_standings(session: Session, standings: Mapping[Account, AccountUse]) -> None:
    """Store the accounts that have jobs here, for those who look at the queue. None: the queue is not fair.

    Rows whose figures changed only a little are written once in a while.
    """
    stored = {
        Account(project, user): (is_over, round(used_part / _LITTLE), is_old)
        for project, user, is_over, used_part, is_old in session.execute(
            select(
                AccountStanding.project, AccountStanding.user_name, AccountStanding.is_over, AccountStanding.used_part,
                AccountStanding.at < func.now() - _REFRESHED_AFTER,
            )
        )
    }  # fmt: skip
    gone = stored.keys() - standings.keys()
    if gone:
        key = tuple_(AccountStanding.project, AccountStanding.user_name)
        session.execute(delete(AccountStanding).where(or_(*(key == account for account in gone))))
    rows = [
        {
            "project": account.project, "user_name": account.user, "used_slot_s": use.used_slot_s,
            "used_part": use.used_part, "entitled_part": use.entitled_part, "is_over": use.is_over,
        }
        for account, use in standings.items()
        if stored.get(account) != (use.is_over, round(use.used_part / _LITTLE), False)
    ]  # fmt: skip
    if rows:
        written = insert(AccountStanding)
        changed = {name: written.excluded[name] for name in rows[0]} | {"at": func.now()}
        session.execute(written.on_conflict_do_update(index_elements=["project", "user_name"], set_=changed), rows)
