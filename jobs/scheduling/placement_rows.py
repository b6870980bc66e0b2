"""The input of placement, read from the rows: the queue, the hosts, and the attempts that hold their slots.

Called by the dispatcher, and by `jobs.scheduling.queue` to say why a job waits, in their transactions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Float,
    Integer,
    Interval,
    RowMapping,
    Select,
    String,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    null,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Allocation, Attempt, Host, Job, RunTime, Slot
from jobs.lifecycle.rights_now import may_train
from jobs.model.pools import PREFIX
from jobs.model.spec import MAX_SECONDS
from jobs.model.states import Status
from jobs.scheduling.contenders import Account, Order, QueuedJob
from jobs.scheduling.nvlinks import links_of
from jobs.scheduling.pools import Pool, PoolNode
from jobs.scheduling.quotas import KEEPS_FILES
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest


def seconds(interval: ColumnElement[Any]) -> ColumnElement[float]:
    """An interval in seconds."""
    return cast(func.extract("epoch", interval), Float(53))


PASS_LOCK = 0x646973706174  # "dispat": the advisory lock that a pass of the dispatcher holds
CREATED_S = cast(func.extract("epoch", Job.created_at), Float(53))
# Old specs, from before limits were bounded, may say 1e300. `placing` adds it to a time, and timestamps have an end.
_STORED_LIMIT_S = cast(Job.spec["time_limit_s"].astext, Float(53))
TIME_LIMIT_S = case((_STORED_LIMIT_S > MAX_SECONDS, MAX_SECONDS), else_=_STORED_LIMIT_S).label("time_limit_s")
QUEUE_ORDER = (Job.priority.desc(), Job.created_at, Job.id)
LANE_ORDER = (Job.priority.desc(), Job.level, Job.created_at, Job.id)  # of the jobs of one account
# A job that was queued in the future: the clock was set back, so its back-off says nothing.
_CLOCK_WAS_SET_BACK = Job.queued_at > func.now()
READY = or_(func.coalesce(Job.not_before, func.now()) <= func.now(), _CLOCK_WAS_SET_BACK)  # its back-off is over
PAUSE_S = case((~READY, seconds(Job.not_before - func.now())), else_=0.0)
# The jobs of a user who may not submit any more keep their places, as paused jobs do and jobs that wait for others, and
# are not placed.
IN_LINE = and_(
    Job.status == Status.QUEUED, Job.cancel_requested_at.is_(None), Job.paused_at.is_(None), ~Job.waits_for_jobs
)
IN_QUEUE = and_(IN_LINE, may_train(Job.owner, Job.project))

IN_SERVICE = and_(Slot.quarantined_at.is_(None), Slot.retired_at.is_(None), Slot.unhealthy.is_(None))
IS_FREE = and_(Slot.attempt_id.is_(None), ~Slot.in_use_by_others, IN_SERVICE)  # it can be leased


@dataclass(frozen=True)
class RegisteredHost:
    """A registered host as the dispatcher sees it."""

    slots: HostSlots
    alive: bool
    drained: bool
    kept_for: str | None
    no_space: str | None = None  # why jobs have to wait until there is space
    unhealthy: int = 0  # the number of its slots that are unhealthy

    @property
    def in_use(self) -> bool:
        """Whether jobs are placed on it."""
        return self.alive and not self.drained and self.no_space is None


@dataclass(frozen=True)
class RegisteredPool:
    """A registered pool as the dispatcher sees it."""

    pool: Pool
    alive: bool
    drained: bool

    @property
    def in_use(self) -> bool:
        """Whether jobs are handed to it."""
        return self.alive and not self.drained and self.pool.problem is None


@dataclass(frozen=True)
class QueuePage:
    """Some jobs of the queue, sorted, and where the next page begins; None if these are the last."""

    jobs: Sequence[QueuedJob]
    after: tuple[Any, ...] | None


LanePlace = tuple[int, int, datetime, str]  # of a job among those of its account
_PLACE = ("priorities", "levels", "created", "ids")
LANE_BEGINS: LanePlace = (2**31 - 1, 0, datetime(1, 1, 1, tzinfo=UTC), "")


def next_page(
    session: Session,
    after: tuple[Any, ...] | None,
    *,
    limit: int,
    without: Collection[str] = (),
    full: Collection[str] = (),
    pools: Collection[str] = (),
    among: Collection[Account] | None = None,
    queued_for_s: float = 0.0,
) -> QueuePage:
    """The first `limit` jobs of the queue after `after` (None: from its head) that may be placed now.

    Only those `among` some accounts, and those that have been `queued_for_s`. Those of the projects `without` are left
    out, the new ones of the projects that are `full`, and those that wait in one of the `pools`.
    """
    query = _queue(
        frozenset(full), frozenset(pools), is_after=after is not None, is_among=among is not None,
        has_waited=bool(queued_for_s),
    )  # fmt: skip
    priority, created_at, job_id = after or (None, None, None)
    values = {
        "limit": limit, "without": [*without], "queued_for": timedelta(seconds=queued_for_s),
        "projects": [account.project for account in among or ()], "users": [account.user for account in among or ()],
        "priority": priority, "created_at": created_at, "job_id": job_id,
    }  # fmt: skip
    rows = session.execute(query, values).mappings().all()
    last = rows[-1] if len(rows) == limit else None
    after = None if last is None else (last["priority"], last["created_at"], last["id"])
    return QueuePage([queued_job_of(row) for row in rows], after)


def lane_pages(
    session: Session,
    lanes: Mapping[Account, LanePlace],
    *,
    limit: int,
    full: Collection[str] = (),
    pools: Collection[str] = (),
) -> dict[Account, QueuePage]:
    """The next jobs of some accounts that may be placed now, the lowest level of a priority first. One statement.

    Of each account up to `limit`, after its place in `lanes`. `full` and `pools` as for `next_page`.
    """
    values = {
        "projects": [account.project for account in lanes], "users": [account.user for account in lanes],
        "limit": limit,
    } | {name: [place[number] for place in lanes.values()] for number, name in enumerate(_PLACE)}  # fmt: skip
    pages = dict[Account, list[QueuedJob]]()
    places = dict[Account, LanePlace]()
    for row in session.execute(_lanes(frozenset(full), frozenset(pools)), values).mappings():
        job = queued_job_of(row)
        pages.setdefault(job.account, []).append(job)
        places[job.account] = row["priority"], row["level"], row["created_at"], row["id"]
    return {
        account: QueuePage(jobs, places[account] if len(jobs) == limit else None) for account, jobs in pages.items()
    }


def _without(query: Select[Any], *, full: Collection[str], pools: Collection[str]) -> Select[Any]:
    if pools:
        query = query.where(~waits_in_pool(pools))
    return query.where(goes_on_if_full(full)) if full else query


def goes_on_if_full(full: Collection[str]) -> ColumnElement[bool]:
    """Whether the storage of its project lets a job be placed. `full` are the projects that keep too much."""
    return or_(Job.project != func.all(cast([*full], ARRAY(String))), KEEPS_FILES)


def waits_in_pool(pools: Collection[str]) -> ColumnElement[bool]:
    """Whether a queued job has been handed to one of these pools, for its next attempt."""
    return exists().where(
        Allocation.job_id == Job.id, Allocation.number == Job.attempt + 1, Allocation.over_at.is_(None),
        Allocation.pool.in_(pools),
    )  # fmt: skip


# These statements run in every pass. Building one takes longer than running it on a short queue.
@cache
def _queue(
    full: Collection[str], pools: Collection[str], *, is_after: bool, is_among: bool, has_waited: bool
) -> Select[Any]:
    query = _without(select_queued_jobs(), full=full, pools=pools).where(IN_QUEUE, READY)
    query = query.where(Job.project != func.all(bindparam("without", type_=ARRAY(String))))
    if is_among:
        arrays = [bindparam(name, type_=ARRAY(String)) for name in ("projects", "users")]
        accounts = func.unnest(*arrays).table_valued("project", "owner", name="accounts").render_derived()
        query = query.where(tuple_(Job.project, Job.owner).in_(select(accounts.c.project, accounts.c.owner)))
    if has_waited:
        query = query.where(Job.queued_at <= func.now() - bindparam("queued_for", type_=Interval))
    if is_after:
        priority = bindparam("priority", type_=Integer)
        created_at, job_id = bindparam("created_at", type_=DateTime(timezone=True)), bindparam("job_id", type_=String)
        behind = tuple_(Job.created_at, Job.id) > tuple_(created_at, job_id)
        query = query.where(Job.priority <= priority, or_(Job.priority < priority, behind))
    return query.order_by(*QUEUE_ORDER).limit(bindparam("limit", type_=Integer))


@cache
def _lanes(full: Collection[str], pools: Collection[str]) -> Select[Any]:
    """The jobs of accounts whose rights were checked."""
    kinds: dict[str, Any] = {
        "projects": String, "users": String, "priorities": Integer, "levels": Integer,
        "created": DateTime(timezone=True), "ids": String,
    }  # fmt: skip
    lanes = (
        func.unnest(*(bindparam(name, type_=ARRAY(kind)) for name, kind in kinds.items()))
        .table_valued(*kinds, name="lanes", with_ordinality="number")
        .render_derived()
    )
    place = lanes.c
    behind = tuple_(Job.level, Job.created_at, Job.id) > tuple_(place.levels, place.created, place.ids)
    jobs = (
        _without(select_queued_jobs(), full=full, pools=pools)
        .where(IN_LINE, READY, Job.project == place.projects, Job.owner == place.users)
        .where(Job.priority <= place.priorities, or_(Job.priority < place.priorities, behind))
        .order_by(*LANE_ORDER)
        .limit(bindparam("limit", type_=Integer))
        .lateral("jobs")
    )
    in_order = (place.number, jobs.c.priority.desc(), jobs.c.level, jobs.c.created_at, jobs.c.id)
    return select(jobs).select_from(lanes.join(jobs, true())).order_by(*in_order)


@cache
def select_queued_jobs() -> Select[Any]:
    """The columns of a queued job that `queued_job_of` reads."""
    last = select(Attempt.shares).where(Attempt.job_id == Job.id, Attempt.number == Job.attempt).scalar_subquery()
    is_restart = Job.attempt > 0
    accumulate = func.coalesce(Job.spec["accumulate"].as_integer(), 1)
    return select(
        Job.id, Job.priority, Job.created_at, CREATED_S.label("created_s"), Job.gpus, Job.project,
        Job.owner, Job.level,
        seconds(func.now() - Job.queued_at).label("waited_s"),
        Job.spec["device"].astext.label("device"),
        Job.spec["placement"].astext.label("placement"),
        TIME_LIMIT_S,
        # The first attempt gets all GPUs that the job asks for.
        case((is_restart, Job.spec["min_gpus"].as_integer())).label("fewest_gpus"),
        case((Job.spec["batch_per"].astext == "global", Job.spec["batch_size"].as_integer() // accumulate)).label(
            "global_batch"
        ),
        case((is_restart, last), else_=null()).label("last_shares"),
        # Specs of older versions do not have these.
        Job.spec["gpu_model"].astext.label("gpu_model"),
        cast(Job.spec["gpu_memory_gb"].astext, Float(53)).label("gpu_memory_gb"),
        func.coalesce(Job.spec["mixed_gpus"].as_boolean(), False).label("mixed_gpus"),
        Job.spec["pool"].astext.label("pool"),
        RunTime.durations_s,
        func.coalesce(KEEPS_FILES, False).label("keeps_files"),
    ).outerjoin(RunTime, RunTime.run_key == Job.run_key)  # fmt: skip


def queued_job_of(row: RowMapping) -> QueuedJob:
    """A job of the queue from its row."""
    last_hosts = tuple([share["host"] for share in row["last_shares"] or ()])
    request = _request(
        row["gpus"], row["device"], row["placement"], last_hosts, row["fewest_gpus"], row["global_batch"],
        row["gpu_model"], row["gpu_memory_gb"], row["mixed_gpus"], row["pool"],
    )  # fmt: skip
    estimate_s = row["time_limit_s"] or max(row["durations_s"] or (), default=None)
    return QueuedJob(
        row["id"], order_of(row), request, estimate_s, Account(row["project"], row["owner"]), row["keeps_files"],
        row["level"], row["waited_s"],
    )  # fmt: skip


_request = lru_cache(maxsize=10_000)(SlotRequest)  # the jobs of a queue have few different ones


def order_of(row: RowMapping) -> Order:
    return -row["priority"], row["created_s"], row["id"]


def registered_hosts(session: Session, *, host_timeout_s: float) -> list[RegisteredHost]:
    """Every registered host that has slots, by name."""
    rows = session.execute(_classes(host_timeout_s)).all()
    return [_registered(name, list(classes)) for name, classes in groupby(rows, key=itemgetter(0))]


def registered_pools(session: Session, *, host_timeout_s: float) -> list[RegisteredPool]:
    """Every registered pool, by name."""
    rows = session.execute(_pools(host_timeout_s))
    return [RegisteredPool(_pool(name, info), alive, drained) for name, info, alive, drained in rows]


@cache
def _pools(host_timeout_s: float) -> Select[Any]:
    columns = Host.name, Host.info, is_alive(host_timeout_s), Host.drained_at.is_not(None)
    return select(*columns).where(Host.name.startswith(PREFIX)).order_by(Host.name)


def _pool(name: str, info: dict[str, Any]) -> Pool:
    return Pool(name, [PoolNode.from_json(node) for node in info.get("nodes", ())], info.get("problem"))


def kind_for_auto(hosts: Iterable[RegisteredHost], pools: Iterable[RegisteredPool] = ()) -> str:
    """The kind of slots that jobs with `device: auto` take: GPUs, unless nothing registered has any in service.

    Lost and drained hosts count. So a job does not start on CPU slots because the worker with the GPUs restarts.
    """
    kinds = {slots.of.kind for host in hosts for slots in host.slots.classes}
    has_gpus = "gpu" in kinds or any(node.gpus for pool in pools for node in pool.pool.nodes)
    return "gpu" if has_gpus else "cpu"


def class_of(host: str, kind: str, name: str, memory_bytes: int | None) -> SlotClass:
    """The class of a slot. All CPU slots of a host are alike."""
    return SlotClass(host, kind, name, memory_bytes or 0) if kind == "gpu" else SlotClass(host, kind)


def _registered(name: str, rows: Sequence[Any]) -> RegisteredHost:
    slots: dict[SlotClass, ClassSlots] = {}
    for _, kind, model, memory_bytes, free, capacity, healthy, *_ in rows:
        if healthy:  # unhealthy slots are no capacity
            of = class_of(name, kind, model, memory_bytes)
            before = slots.get(of, ClassSlots(of, (), 0))  # CPU slots may have several names
            slots[of] = ClassSlots(of, tuple(sorted([*before.free, *(free or ())])), before.capacity + capacity)
    unhealthy, topologies = sum(row[7] for row in rows), [row[8] for row in rows if row[8] is not None]
    peers, alive, drained, kept_for, no_space = rows[0][9:]
    links = links_of(topologies[0] if topologies else None)
    host = HostSlots(name, tuple(slots.values()), peers, links)
    return RegisteredHost(host, alive, drained, kept_for, no_space, unhealthy)


@cache
def _classes(host_timeout_s: float) -> Select[Any]:
    """The slots of each host by class, and the host's own columns with each. The topology only where it is needed."""
    is_healthy, is_quarantined = Slot.unhealthy.is_(None), Slot.quarantined_at.is_not(None)
    free = func.array_agg(Slot.index).filter(IS_FREE)
    return (
        select(
            Host.name, Slot.kind, Slot.name, Slot.memory_bytes,
            free,
            func.count().filter(is_healthy, ~is_quarantined),
            func.count().filter(is_healthy),
            func.count().filter(~is_healthy),
            case((and_(Slot.kind == "gpu", func.count().filter(IS_FREE) > 0), Host.info["topology"].astext)),
            case((Host.address.is_not(None), Host.info["peers"].astext)),
            is_alive(host_timeout_s),
            Host.drained_at.is_not(None),
            Host.kept_for,
            Host.no_space,
        )
        .join(Slot, Slot.host == Host.name)
        .where(Slot.retired_at.is_(None), ~Host.name.startswith(PREFIX))
        .group_by(Host.name, Slot.kind, Slot.name, Slot.memory_bytes)
        .order_by(Host.name)
    )  # fmt: skip


def is_alive(host_timeout_s: float) -> ColumnElement[bool]:
    """Whether the last heartbeat of a host is recent. One from the future is not: the clock was set back after it."""
    timeout = timedelta(seconds=host_timeout_s)
    return Host.heartbeat_at.between(func.now() - timeout, func.now() + timeout)
