"""Properties of any queue on any hosts, and of a cluster over time."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobs.scheduling.allowances import Allowances, Quota
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.decisions import Placement
from jobs.scheduling.fitting import Cluster as Fitting
from jobs.scheduling.nvlinks import Links
from jobs.scheduling.placement import PlacementPass, place_jobs
from jobs.scheduling.slots import ClassSlots, Counts, HostSlots, SlotClass, SlotRequest
from tests.slot_classes import alike

# Two models, one of them with two sizes of memory, a GPU whose memory is not known, and CPU slots.
KINDS = st.sampled_from(
    [("gpu", "A100", 40), ("gpu", "A100", 80), ("gpu", "H100", 80), ("gpu", "H100", 0), ("cpu", "", 0)]
)
CLASSES = st.dictionaries(KINDS, st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=3)


@st.composite
def host_slots(draw: st.DrawFn, name: str) -> HostSlots:
    """A host with slots of up to three classes, whose free slots come in any sequence, and links between some."""
    drawn = draw(CLASSES)
    indices = draw(st.permutations(range(sum(free for free, _ in drawn.values()))))
    classes = []
    for (kind, model, memory_gb), (free, busy) in drawn.items():
        of = SlotClass(name, kind, model, memory_gb * 10**9)
        classes.append(ClassSlots(of, tuple(sorted(indices[:free])), free + busy))
        indices = indices[free:]
    pairs = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1])
    links = draw(st.none() | st.dictionaries(pairs, st.integers(1, 4), min_size=1, max_size=6).map(Links))
    return HostSlots(name, tuple(classes), draw(st.sampled_from([None, "a", "b"])), links)


BOOLEANS = st.booleans()
HOSTS = st.integers(1, 4).flatmap(lambda number: st.tuples(*(host_slots(f"h{n}") for n in range(number))).map(list))
COMMON = {
    "gpus": st.integers(1, 12),
    "placement": st.sampled_from(["pack", "single_host", "spread"]),
    "last_hosts": st.lists(st.sampled_from(["h0", "h1", "h2", "gone"]), unique=True, max_size=2).map(tuple),
}
CHOICE = {
    "gpu_model": st.sampled_from([None, None, None, "a100", "H100", "b200"]),
    "gpu_memory_gb": st.sampled_from([None, None, None, 40.0, 41.0]),
    "mixed_gpus": BOOLEANS,
}
WISHES = st.builds(SlotRequest, device=st.sampled_from(["auto", "cpu"]), **COMMON) | st.builds(
    SlotRequest, device=st.sampled_from(["auto", "gpu"]), **COMMON, **CHOICE
)
ESTIMATES = st.none() | st.integers(1, 20).map(float)
ACCOUNTS = st.sampled_from([Account(project, "u") for project in ("p", "q", "free")])
Contention = tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]]


@st.composite
def clusters(draw: st.DrawFn) -> Contention:
    """A queue, hosts, and attempts that hold all their leased slots."""
    hosts = draw(HOSTS)
    priorities = st.integers(0, 3)
    attempts: list[LiveAttempt] = []
    for slots in classes_of(hosts):
        leased = slots.capacity - len(slots.free)
        while leased:
            gpus = draw(st.integers(1, leased))
            leased -= gpus
            order = (-draw(priorities), 0.0, f"a{len(attempts)}")
            attempts.append(
                LiveAttempt(
                    len(attempts), order, {slots.of: gpus}, draw(ESTIMATES), leaving=draw(BOOLEANS),
                    overdue=draw(BOOLEANS),
                )
            )  # fmt: skip
    queue = [
        QueuedJob(
            f"j{number}",
            (-draw(priorities), 1.0, f"j{number}"),
            request,
            draw(ESTIMATES),
            draw(ACCOUNTS),
            draw(BOOLEANS),
        )
        for number, request in enumerate(draw(st.lists(WISHES, max_size=12)))
    ]
    return sorted(queue, key=lambda job: job.order), hosts, attempts


def classes_of(hosts: Iterable[HostSlots]) -> list[ClassSlots]:
    return [slots for host in hosts for slots in host.classes]


def free_of(hosts: Iterable[HostSlots]) -> dict[SlotClass, int]:
    return {slots.of: len(slots.free) for slots in classes_of(hosts)}


def capacity_of(hosts: Iterable[HostSlots]) -> dict[SlotClass, int]:
    return {slots.of: slots.capacity for slots in classes_of(hosts)}


def class_of(hosts: Iterable[HostSlots]) -> dict[tuple[str, int], SlotClass]:
    """The class of each free slot."""
    return {(slots.of.host, index): slots.of for slots in classes_of(hosts) for index in slots.free}


def kind_of(request: SlotRequest, hosts: Sequence[HostSlots]) -> str:
    """The kind that a job takes: with `device: auto` GPUs if there are any, in whatever state."""
    if request.gpu_model or request.gpu_memory_gb or request.mixed_gpus:
        return "gpu"
    has_gpus = any(slots.of.kind == "gpu" for slots in classes_of(hosts))
    return request.device if request.device != "auto" else "gpu" if has_gpus else "cpu"


def matches(request: SlotRequest, slots: SlotClass) -> bool:
    model = (request.gpu_model or "").upper()
    return model in slots.model and slots.memory_bytes >= (request.gpu_memory_gb or 0) * 10**9


def holds(request: SlotRequest, hosts: Sequence[HostSlots], free: Counts) -> bool:
    """Whether these free slots hold a job. Tries each set of models that it may take, and each number of hosts."""
    kind = kind_of(request, hosts)
    classes = [slots for slots in free if slots.kind == kind and matches(request, slots)]
    models = {slots.model for slots in classes}
    for allowed in [models] if request.mixed_gpus else [{model} for model in models]:
        count = Counter[str]()
        for slots in classes:
            count[slots.host] += free[slots] if slots.model in allowed else 0
        for number in range(1, request.gpus + 1):
            if request.gpus % number or (number > 1 and request.placement == "single_host"):
                continue
            room = [one for one in hosts if count[one.host] >= request.gpus // number]
            together = Counter(one.peers for one in room if one.peers is not None)
            if (number == 1 and room) or max(together.values(), default=0) >= number:
                return True
    return False


@given(clusters())
def test_no_slot_is_leased_twice_and_no_job_is_half_placed(contention: Contention) -> None:
    queue, hosts, attempts = contention
    by_name = {host.host: host for host in hosts}
    requests = {job.job_id: job.request for job in queue}
    placements = place_jobs(queue, hosts, attempts).placements
    slot_counts = Counter(slot for placement in placements for slot in placement.slots)
    assert set(slot_counts.values()) <= {1}
    assert len({placement.job_id for placement in placements}) == len(placements)
    for placement in placements:
        request, used_hosts = requests[placement.job_id], [by_name[share.host] for share in placement.shares]
        assert placement.gpus == request.gpus
        assert len({len(share.slots) for share in placement.shares}) == 1
        assert len({host.host for host in used_hosts}) == len(used_hosts)
        assert len({len(set(share.slots)) for share in placement.shares}) == 1
        taken = {class_of(hosts)[slot] for slot in placement.slots}
        assert {slots.kind for slots in taken} == {kind_of(request, hosts)}
        assert all(matches(request, slots) for slots in taken)
        assert request.mixed_gpus or len({slots.model for slots in taken}) == 1
        assert len(used_hosts) == 1 or (
            request.placement != "single_host" and len({host.peers for host in used_hosts}) == 1
        )
        assert len(used_hosts) == 1 or used_hosts[0].peers is not None


@settings(max_examples=200)
@given(clusters())
def test_the_head_of_the_queue_is_placed_or_reserves_slots_and_preempts_only_whom_it_must(
    contention: Contention,
) -> None:
    """It is placed if it fits now. Else it gets a reservation if it could ever fit."""
    queue, hosts, attempts = contention
    assume(queue)
    head, decided = queue[0], place_jobs(queue[:1], hosts, attempts)
    assert bool(decided.placements) == holds(head.request, hosts, free_of(hosts))
    assert bool(decided.placements or decided.reservations) == holds(head.request, hosts, capacity_of(hosts))
    free_soon = Counter(free_of(hosts))
    for attempt in attempts:
        free_soon.update(attempt.slots if attempt.leaving else {})
    preemptible = {
        attempt.attempt_id: attempt.slots
        for attempt in attempts
        if not attempt.leaving
        and (attempt.order[0] > head.order[0] or (attempt.overdue and attempt.order > head.order))
    }

    def makes_room(leaving: Iterable[int]) -> bool:
        free = Counter(free_soon)
        for number in leaving:
            free.update(preemptible[number])
        return holds(head.request, hosts, free)

    preempted = {number for preemption in decided.preemptions for number in preemption.attempt_ids}
    if preempted:
        assert not makes_room(())
        assert makes_room(preempted)
        assert not any(makes_room(preempted - {number}) for number in preempted)
    elif not decided.placements:
        assert makes_room(()) or not makes_room(preemptible)


def quota(project: str, max_slots: int | None, slots: int = 0, gpu_hours: float = 0, storage_gb: float = 0) -> Quota:
    """Of projects that may use five GPU-hours and keep five GB."""
    return Quota(project, max_slots, 5.0, slots, gpu_hours, datetime(2030, 2, 1, tzinfo=UTC), 5.0, storage_gb)


USED = st.sampled_from([0.0, 5.0])
QUOTAS = st.tuples(
    st.builds(quota, st.just("p"), st.integers(0, 8), st.integers(0, 4)),
    st.builds(quota, st.just("q"), st.none() | st.integers(0, 8), gpu_hours=USED, storage_gb=USED),
)


@settings(max_examples=150)
@given(clusters(), QUOTAS)
def test_no_quota_is_exceeded_and_jobs_that_it_holds_back_block_no_others(
    contention: Contention, quotas: tuple[Quota, ...]
) -> None:
    queue, hosts, attempts = contention
    cluster, allowances = Fitting(hosts), Allowances(quotas)
    within = [
        one
        for one in queue
        if cluster.attainable(one.request)
        and allowances.take(one.project, one.request.gpus, keeps_files=one.keeps_files)
    ]
    decided, without = place_jobs(queue, hosts, attempts, quotas), place_jobs(within, hosts, attempts)
    assert (decided.placements, decided.preemptions) == (without.placements, without.preemptions)
    assert decided.kept_for == without.kept_for
    for limit in quotas:
        jobs = [one for one in within if one.project == limit.project]  # no others can be placed
        assert not (limit.is_used_up and jobs)
        assert all(one.keeps_files for one in jobs) or not limit.is_full
        if limit.max_slots is not None:
            assert sum(one.request.gpus for one in jobs) <= max(limit.max_slots - limit.slots, 0)


@dataclass
class Cluster:
    """A cluster over time: jobs arrive, are placed and end. All GPUs are alike, and all hosts work together."""

    sizes: dict[str, int]  # the GPUs of each host
    has_estimates: bool  # whether it is known how long jobs take
    now: int = 0
    running: dict[int, tuple[QueuedJob, Placement, int]] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # the latest start of each first blocked job

    def hosts(self, used: Container[tuple[str, int]] = ()) -> list[HostSlots]:
        """The hosts, where these slots are taken."""
        return [
            alike(name, "gpu", [index for index in range(size) if (name, index) not in used], size, "a")
            for name, size in self.sizes.items()
        ]

    def run_pass(self, queue: list[QueuedJob], durations: Mapping[str, int]) -> PlacementPass:
        """Run one pass and start the jobs that it places."""
        self.running = {number: run for number, run in self.running.items() if run[2] > self.now}
        used = {slot for _, placement, _ in self.running.values() for slot in placement.slots}
        attempts = [
            LiveAttempt(
                number, job.order, Counter(SlotClass(host, "gpu") for host, _ in placement.slots),
                float(end - self.now) if self.has_estimates else None,
            )
            for number, (job, placement, end) in self.running.items()
        ]  # fmt: skip
        decision = place_jobs(queue, self.hosts(used), attempts)
        jobs = {job.job_id: job for job in queue}
        for placement in decision.placements:
            end = self.now + durations[placement.job_id]
            self.running[len(self.started)] = jobs[placement.job_id], placement, end
            self.started[placement.job_id] = self.now
        return decision


ARRIVING = st.builds(SlotRequest, gpus=st.integers(1, 9), placement=st.sampled_from(["pack", "single_host", "spread"]))


@settings(max_examples=200)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 8), ARRIVING), min_size=4, max_size=30),
    st.booleans(),
)
def test_a_blocked_job_starts_by_its_shadow_time_and_every_job_starts(
    sizes: list[int], jobs: list[tuple[int, int, SlotRequest]], has_estimates: bool
) -> None:
    """With true estimates it starts by its reserved time. Without, when all that ran as it became first has ended."""
    cluster = Cluster({f"h{n}": size for n, size in enumerate(sizes)}, has_estimates)
    durations = {f"j{number:02}": lasts for number, (_, lasts, _) in enumerate(jobs)}
    arrivals: dict[int, list[QueuedJob]] = {}
    at = 0
    for number, (after, lasts, request) in enumerate(jobs):
        at += after
        estimate_s = float(lasts) if has_estimates else None
        job = QueuedJob(f"j{number:02}", (-50, float(at), f"j{number:02}"), request, estimate_s)
        arrivals.setdefault(at, []).append(job)
    queue: list[QueuedJob] = []
    for now in range(at + sum(durations.values()) + 1):
        cluster.now = now
        queue += arrivals.get(now, [])
        decision = cluster.run_pass(queue, durations)
        queue = [job for job in queue if job.job_id not in cluster.started]
        for first in decision.reservations[:1]:
            last_end = max(end for _, _, end in cluster.running.values())
            cluster.promised.setdefault(first.job_id, now + first.at_s if has_estimates else last_end)
    for job_id, latest in cluster.promised.items():
        assert cluster.started[job_id] <= latest
    assert [job.job_id for job in queue if holds(job.request, cluster.hosts(), capacity_of(cluster.hosts()))] == []


@given(HOSTS, st.lists(WISHES, max_size=30))
def test_while_slots_are_taken_hosts_are_found_as_if_each_was_looked_at_again(
    hosts: list[HostSlots], requests: list[SlotRequest]
) -> None:
    cluster = Fitting(hosts)
    for request in requests:
        shares = cluster.fit(request, cluster.left)
        assert shares == cluster.fit(request, dict(cluster.left))
        if shares is not None:
            cluster.take(shares)
        assert cluster.number_left == sum(cluster.left.values())
