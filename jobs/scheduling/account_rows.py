"""What the fair queue needs to know of accounts, read from the rows, and what it decided about them.

Called by the dispatcher, in its transaction.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta

from sqlalchemy import delete, func, or_, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.db.tables import AccountStanding, Job, Project, UsageHour
from jobs.model.attained_service import decayed_s
from jobs.model.states import Status
from jobs.scheduling.allowances import Allowances
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import AccountUse, Fair
from jobs.scheduling.placement_rows import next_page, seconds

_HALF_LIVES = 10  # what was used before counts less than a thousandth
_FIRST_PAGE = 25  # there may be many accounts, and most passes place few jobs
_LITTLE = 0.05
_REFRESHED_AFTER = timedelta(seconds=30)  # figures that people look at may be so old


def fair_rules(session: Session, live: Sequence[LiveAttempt], *, slots: int, half_life_s: float) -> Fair:
    """The rules of the queue by what each account that has jobs here has used."""
    in_queue = select(Job.project, Job.owner).where(Job.status == Status.QUEUED).distinct()
    accounts = {Account(project, user) for project, user in session.execute(in_queue)}
    used_s = dict.fromkeys(accounts | {attempt.account for attempt in live}, 0.0)
    hours = func.power(2.0, -seconds(func.now() - UsageHour.hour) / half_life_s)
    ended = (
        select(UsageHour.project, UsageHour.user_name, func.sum(UsageHour.slot_seconds * hours))
        .where(UsageHour.hour > func.now() - timedelta(seconds=_HALF_LIVES * half_life_s))
        .group_by(UsageHour.project, UsageHour.user_name)
    )
    for project, user, slot_s in session.execute(ended):
        if Account(project, user) in used_s:
            used_s[Account(project, user)] += slot_s
    for attempt in live:
        used_s[attempt.account] += decayed_s(attempt.held_s, half_life_s) * attempt.gpus
    shares = session.execute(select(Project.name, Project.share).where(Project.share != 1.0))
    return Fair(live, used_s, {name: share for name, share in shares}, slots)  # noqa: C416 - rows are no pairs


def jobs_in_turn(
    session: Session,
    rules: Fair,
    allowances: Allowances,
    by_age: Sequence[QueuedJob],
    *,
    page: int,
    pools: Collection[str],
) -> Iterator[QueuedJob]:
    """The queue in its sequence. It is read in pages, each account's by itself, as far as the caller asks for it.

    `by_age` is its beginning by priority and age.
    """

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

    held_back = allowances.over | allowances.full
    oldest = [job for job in by_age if job.project not in held_back]
    return rules.in_turn({account: lane(account) for account in rules.standings()}, oldest)


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
