"""The present state of hosts and their slots: for the api's list, and for its check at submission.

`jobs.scheduling.draining` changes hosts for an operator.

    HostNotFound        no host of this name has registered
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, extract, func, select
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, Page, page_of
from jobs.db.tables import Attempt, Host, Slot
from jobs.model.pools import PREFIX, is_pool
from jobs.model.spec import Spec
from jobs.model.states import SlotState
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.placement_rows import class_of, is_alive, registered_pools
from jobs.scheduling.pool_reasons import pool_shortage
from jobs.scheduling.shortage import Shortage, shortage
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest

_LIST = "hosts"  # what its cursors belong to
LOOKS_A_PERIOD = 50  # of all hosts together


class HostNotFound(LookupError):
    """No host of this name has registered."""


@dataclass(frozen=True)
class SlotNow:
    """A slot, and the attempt that holds it."""

    index: int
    kind: str
    name: str
    uuid: str | None
    memory_bytes: int | None
    state: SlotState
    job_id: str | None
    attempt: int | None
    rank: int | None
    reading: dict[str, Any] | None  # of its GPU, a few seconds old
    unhealthy: str | None = None  # why no job gets its GPU
    in_use_by_others: bool = False  # by processes of no attempt


@dataclass(frozen=True)
class HostNow:
    """A host or a pool, and its slots. `alive` says whether its last heartbeat is recent."""

    name: str
    info: dict[str, Any]
    registered_at: datetime
    heartbeat_at: datetime
    heartbeat_age_s: float
    alive: bool
    address: str | None
    drained_at: datetime | None
    kept_for: str | None
    no_space: str | None
    no_store: str | None  # why nothing is copied from it to the store
    folders: Sequence[dict[str, Any]]  # `jobs.runtime.space.FolderSpace`s
    slots: Sequence[SlotNow]

    @property
    def nodes(self) -> Sequence[dict[str, Any]] | None:
        """The nodes of a pool. None: it is a host."""
        if not is_pool(self.name):
            return None
        failing = self.info.get("failing", ())
        return [{**node, "failing": node["name"] in failing} for node in self.info.get("nodes", ())]

    @property
    def problem(self) -> str | None:
        """Why a pool takes no jobs now."""
        return self.info.get("problem") if is_pool(self.name) else None


def hosts(session: Session, *, host_timeout_s: float, limit: int, cursor: str | None = None) -> Page[HostNow]:
    """A page of the registered hosts, by name, each with its slots by index. Raises `InvalidCursor`."""
    after = "" if cursor is None else cursors.decode(session, cursor, by=BY_NAME, of=_LIST)[0]
    query = select(Host).where(Host.name > after).order_by(Host.name).limit(limit + 1)
    items = _hosts(session, query, host_timeout_s=host_timeout_s)
    return page_of(session, items, by=BY_NAME, limit=limit, of=_LIST, position=lambda host: (host.name,))


def host(session: Session, name: str, *, host_timeout_s: float) -> HostNow:
    """One host. Raises `HostNotFound`."""
    matching = _hosts(session, select(Host).where(Host.name == name), host_timeout_s=host_timeout_s)
    if not matching:
        raise HostNotFound(name)
    return matching[0]


def _hosts(session: Session, query: Select[Host], *, host_timeout_s: float) -> list[HostNow]:
    age_s = extract("epoch", func.now() - Host.heartbeat_at).label("age_s")
    slots: dict[str, list[SlotNow]] = {}
    rows = session.execute(
        select(Slot, Attempt.job_id, Attempt.number)
        .outerjoin(Attempt, Attempt.id == Slot.attempt_id)
        .where(Slot.host.in_(query.with_only_columns(Host.name)))
        .order_by(Slot.host, Slot.index)
    )
    for slot, job_id, number in rows:
        slots.setdefault(slot.host, []).append(_slot_now(slot, job_id, number))
    return [
        HostNow(
            name=host.name,
            info=host.info,
            registered_at=host.registered_at,
            heartbeat_at=host.heartbeat_at,
            heartbeat_age_s=round(float(age), 3),
            alive=abs(float(age)) <= host_timeout_s,
            address=host.address,
            drained_at=host.drained_at,
            kept_for=host.kept_for if any(slot.state is SlotState.FREE for slot in slots.get(host.name, [])) else None,
            no_space=host.no_space,
            no_store=host.no_store,
            folders=host.folders or [],
            slots=slots.get(host.name, []),
        )
        for host, age in session.execute(query.add_columns(age_s).order_by(Host.name))
    ]


def whole_cluster(session: Session) -> Cluster:
    """Every registered host with its full capacity, including lost and drained hosts. None of its slots is `free`."""
    peers = case((Host.address.is_not(None), Host.info["peers"].astext))
    rows = session.execute(
        select(Slot.host, Slot.kind, Slot.name, Slot.memory_bytes, func.count(), peers)
        .join(Host, Host.name == Slot.host)
        .where(Slot.retired_at.is_(None), Slot.unhealthy.is_(None), ~Host.name.startswith(PREFIX))
        .group_by(Host.name, Slot.host, Slot.kind, Slot.name, Slot.memory_bytes)
    )
    capacity: Counter[SlotClass] = Counter()
    peers_of = {}
    for host, kind, name, memory_bytes, count, group in rows:
        capacity[class_of(host, kind, name, memory_bytes)] += count
        peers_of[host] = group
    classes: dict[str, list[ClassSlots]] = {}
    for of, count in capacity.items():
        classes.setdefault(of.host, []).append(ClassSlots(of, (), count))
    return Cluster(HostSlots(host, tuple(alike), peers_of[host]) for host, alike in classes.items())


def shared_period_s(session: Session, period_s: float, *, host_timeout_s: float) -> float:
    """Seconds between two checks of a host for work that any host may do. It is longer if there are many hosts.

    So all hosts together check at most 50 times per period. Every host still checks: some of the work only it can do.
    """
    alive = session.scalar(select(func.count()).where(is_alive(host_timeout_s))) or 0
    return period_s * max(1.0, alive / LOOKS_A_PERIOD)


def request_of(spec: Spec, gpus: int | None = None) -> SlotRequest:
    """The slots that a spec asks for. `gpus` is another number of them."""
    return SlotRequest(
        gpus or spec.gpus, spec.device, spec.placement,
        gpu_model=spec.gpu_model, gpu_memory_gb=spec.gpu_memory_gb, mixed_gpus=spec.mixed_gpus, pool=spec.pool,
    )  # fmt: skip


def capacity_problem(session: Session, request: SlotRequest) -> Shortage | None:
    """Why a job could not run even if every host were alive and empty. None if it could, or if no host is registered.

    Lost and drained hosts and pools count: they may come back.
    """
    cluster, pools = whole_cluster(session), registered_pools(session, host_timeout_s=0.0)
    auto = "gpu" if any(node.gpus for one in pools for node in one.pool.nodes) else cluster.auto
    if request.pool is not None:
        return pool_shortage(request, pools, auto=auto)
    if any(one.pool.shape(request, auto=auto) is not None for one in pools):
        return None
    if not cluster.hosts and session.scalar(select(Host.name).limit(1)) is None:
        return None
    return shortage(cluster, request)


def _slot_now(slot: Slot, job_id: str | None, number: int | None) -> SlotNow:
    return SlotNow(
        index=slot.index,
        kind=slot.kind,
        name=slot.name,
        uuid=slot.uuid,
        memory_bytes=slot.memory_bytes,
        state=_state(slot),
        job_id=job_id,
        attempt=number,
        rank=slot.rank,
        reading=slot.reading,
        unhealthy=slot.unhealthy,
        in_use_by_others=slot.in_use_by_others,
    )


def _state(slot: Slot) -> SlotState:
    if slot.quarantined_at is not None:
        return SlotState.QUARANTINED
    if slot.attempt_id is not None:
        return SlotState.LEASED
    if slot.retired_at is not None:
        return SlotState.RETIRED
    if slot.unhealthy is not None:
        return SlotState.UNHEALTHY
    return SlotState.IN_USE_BY_OTHERS if slot.in_use_by_others else SlotState.FREE
