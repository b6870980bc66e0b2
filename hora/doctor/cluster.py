"""The checks of `hora doctor` of the service's database, broker, hosts and jobs. Pure, from the API's JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hora.doctor.findings import Finding
from hora.render.hosts import is_free, is_usable
from hora.render.text import duration, ranges
from hora.service import Json, NotAuthorized, ProblemError
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.pools import Pool, PoolNode, first_that_fits
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest

TIME_SERVER = "Set the clocks of all machines by a time server."
CLOCK_LIMIT_S = 2.0
_OFTEN = 3  # restarts of one job
_MAKE_ROOM = "Delete files there, or lower HORA_MIN_FREE_GB. Jobs start again by themselves."


def advice_on(error: ProblemError) -> str:
    """What to do about an error of the service."""
    if isinstance(error, NotAuthorized):
        return "Check HORA_TOKEN."
    if "migrated" in (error.detail or ""):
        return "Run `python -m migrations upgrade` with the same version as the api."
    return "Read the logs of the database and the api." if error.status == 503 else "Read the api's log."


def readiness_findings(ready: Json) -> Iterator[Finding]:
    """The database and the broker, from `GET /readyz`."""
    schema = str(ready.get("schema", "ok"))
    if schema == "ok":
        yield Finding("database", "ok", "it answers, and its tables fit the api")
    else:
        yield Finding(
            "database",
            "warn",
            f"its tables are of version {schema}",
            "Update the api and the workers to the newer version.",
        )
    if ready.get("space"):
        yield Finding("space", "fail", "; ".join(map(str, ready["space"])), _MAKE_ROOM)
    if ready.get("broker") == "away":
        advice = "Start it, and read its log. Jobs run without it, but each step of their start takes up to a second."
        yield Finding("broker", "warn", "it does not answer the api", advice)
    else:
        yield Finding("broker", "ok", "it answers")


def host_findings(hosts: Sequence[Json]) -> Iterator[Finding]:
    """The hosts: whether jobs can be placed, and what keeps jobs from single hosts."""
    yield placing(hosts)
    yield from quarantined(hosts)
    yield from unhealthy(hosts)
    yield from device_problems(hosts)
    yield from versions(hosts)
    yield from clocks(hosts)
    yield from several_hosts([host for host in hosts if not _is_pool(host)])
    yield from pools([host for host in hosts if _is_pool(host)])


def pools(found: Sequence[Json]) -> Iterator[Finding]:
    """The Slurm pools that are alive, and why one takes no jobs."""
    for pool in found:
        if pool.get("alive"):
            nodes = f"{pool['name']} with {len(pool['nodes'])} nodes"
            if pool.get("problem"):
                advice = "Try `sinfo` and `squeue` on its login node. Running jobs go on."
                yield Finding("pools", "warn", f"{nodes} takes no jobs: {pool['problem']}", advice)
            else:
                yield Finding("pools", "ok", nodes)


def _is_pool(host: Json) -> bool:
    return host.get("nodes") is not None


def placing(hosts: Sequence[Json]) -> Finding:
    """There are hosts that are alive, not drained, and have slots."""
    alive = [host for host in hosts if host.get("alive")]
    drained = [str(host["name"]) for host in alive if host.get("drained_at")]
    slots = [slot for host in hosts if is_usable(host) for slot in host.get("slots", [])]
    state = f"{len(alive)} of {len(hosts)} alive, {sum(map(is_free, slots))} of {len(slots)} slots free"
    state += f"; drained: {', '.join(drained)}" if drained else ""
    full = [f"{host['name']} ({host['no_space']})" for host in alive if host.get("no_space")]
    state += f"; without space: {_first_few(full)}" if full else ""
    if not slots and not any(is_usable(host) and _is_pool(host) for host in hosts):
        advice = "Start a worker, and read its log."
        if full:
            advice = _MAKE_ROOM
        elif drained:
            advice = "Give hosts jobs again with `hora hosts undrain NAME`."
        return Finding("hosts", "fail", state, f"No job can start. {advice}")
    if len(alive) < len(hosts):
        lost = ", ".join(str(host["name"]) for host in hosts if not host.get("alive"))
        advice = f"No heartbeat from {lost}: start the worker there, or remove the host with `hora hosts forget NAME`."
        return Finding("hosts", "warn", state, advice)
    if full:
        return Finding("hosts", "warn", state, _MAKE_ROOM)
    return Finding("hosts", "ok", state)


def quarantined(hosts: Sequence[Json]) -> Iterator[Finding]:
    """Slots with a process of an ended attempt, and how to find that process."""
    for host in hosts:
        marks: dict[str, list[str]] = {}
        for slot in host.get("slots", []):
            if slot.get("state") == "quarantined":
                marks.setdefault(f"{slot.get('job_id')}.{slot.get('attempt')}", []).append(str(slot["index"]))
        for mark, indices in marks.items():
            quarantine = f"{host['name']}: {', '.join(indices)} quarantined: a process of {mark} does not end"
            advice = f"Find it on that host with `grep -la HORA_ATTEMPT={mark} /proc/[0-9]*/environ`."
            yield Finding("slots", "warn", quarantine, advice)


def unhealthy(hosts: Sequence[Json]) -> Iterator[Finding]:
    """Slots whose GPUs are lost or report errors."""
    for host in hosts:
        by_reason: dict[str, list[int]] = {}
        for slot in host.get("slots", []):
            if slot.get("unhealthy") and slot.get("state") != "retired":  # also one that a job still holds
                by_reason.setdefault(str(slot["unhealthy"]), []).append(int(slot["index"]))
        for reason, indices in by_reason.items():
            state = f"{host['name']}: GPU {ranges(indices)} unhealthy: {reason}"
            advice = "It gets no jobs. Look at it with `nvidia-smi -q` and `dmesg` on that host."
            yield Finding("slots", "warn", state, advice)


def device_problems(hosts: Sequence[Json]) -> Iterator[Finding]:
    """Hosts that do not offer their GPUs, or not as they should."""
    for host in hosts:
        problem = _info(host).get("device_problem")
        if host.get("alive") and problem:
            advice = "`hora doctor` on that host says more. HORA_DEVICE=cpu offers CPU slots without this warning."
            yield Finding("GPUs", "warn", f"{host['name']}: {problem}", advice)


def versions(hosts: Sequence[Json]) -> Iterator[Finding]:
    """All hosts that are alive run the same version of Hora."""
    by_host = {str(host["name"]): _versions(host).get("hora") for host in hosts if host.get("alive")}
    named = sorted(f"{name} {version}" for name, version in by_host.items() if version)
    if len({version for version in by_host.values() if version}) > 1:
        yield Finding("host versions", "warn", _first_few(named), "Update all hosts and the api to one version.")


def clocks(hosts: Sequence[Json]) -> Iterator[Finding]:
    """The clocks of the hosts agree with the database's clock, which counts for leases and heartbeats."""
    for host in hosts:
        offset_s = _info(host).get("clock_offset_s")
        if host.get("alive") and isinstance(offset_s, int | float) and abs(offset_s) > CLOCK_LIMIT_S:
            told = (
                f"{host['name']} is {duration(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'} the database"
            )
            yield Finding("host clocks", "warn", told, TIME_SERVER)


def several_hosts(hosts: Sequence[Json]) -> Iterator[Finding]:
    """If there are several hosts, one job can run on several of them."""
    alive = [host for host in hosts if host.get("alive")]
    reached = [host for host in alive if host.get("address") is not None]
    if len(alive) < 2:
        return
    if not reached:
        state = "each job runs on one host: no host has an address for the others"
        yield Finding("several hosts", "ok", state, "For jobs on several hosts set HORA_SSH_DIR and HORA_ADDRESS.")
        return
    if alone := [str(host["name"]) for host in alive if host.get("address") is None]:
        advice = "The log of its worker says why. Look for `no jobs on several hosts here`."
        yield Finding("several hosts", "warn", f"take no part in jobs on several hosts: {_first_few(alone)}", advice)
    groups = Counter(str(_info(host).get("peers")) for host in reached)
    largest = groups.most_common(1)[0][0]
    peer = next(host for host in reached if str(_info(host).get("peers")) == largest)
    others = [host for host in reached if str(_info(host).get("peers")) != largest]
    if others:
        differing = _first_few([f"{host['name']} ({_difference(host, peer)})" for host in others])
        yield Finding("several hosts", "warn", f"cannot share jobs with {peer['name']}: {differing}", _EQUAL)


_EQUAL = (
    "Give them the same versions, Python, user, HORA_HOME, HORA_DATA_ROOTS, HORA_MODELS, HORA_SSH_PORT and "
    "HORA_NETWORK_INTERFACE."
)


def _difference(host: Json, other: Json) -> str:
    """How two hosts differ in what must be equal, as far as they report it."""
    ours, theirs = ({"interface": _info(one).get("interface"), **_versions(one)} for one in (host, other))
    differ = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))
    return ", ".join(f"{name} {ours.get(name)}, not {theirs.get(name)}" for name in differ) or "another setting differs"


def stuck(waiting: Sequence[Json], hosts: Sequence[Json]) -> Finding:
    """Every queued job can be placed at some time on the present slots."""
    has_gpus = any(_is_in_service(slot) and slot["kind"] == "gpu" for host in hosts for slot in host.get("slots", []))
    in_use = (_slots_of(host) for host in hosts if is_usable(host) and host.get("slots") and not _is_pool(host))
    of_slurm = [_pool_of(host) for host in hosts if is_usable(host) and _is_pool(host)]
    auto = "gpu" if has_gpus or any(node.gpus for pool in of_slurm for node in pool.nodes) else "cpu"
    cluster = Cluster(in_use, auto=auto)
    requests = {str(job["id"]): _request_of(job) for job in waiting if not job.get("paused_at")}
    unplaceable = [
        f"{job_id} ({request.gpus} slots)"
        for job_id, request in requests.items()
        if (request.pool is not None or cluster.attainable(request) is None)
        and first_that_fits(of_slurm, request, auto=auto) is None
    ]
    if not unplaceable:
        return Finding("queue", "ok", f"{len(waiting)} jobs wait")
    advice = "Add hosts, bring hosts back, undrain hosts, or cancel the jobs. `hora show ID` says what a job needs."
    return Finding("queue", "warn", f"cannot be placed on these hosts: {_first_few(unplaceable)}", advice)


def _request_of(job: Json) -> SlotRequest:
    spec = job.get("spec") or {}
    return SlotRequest(
        gpus=job["gpus"],
        device=spec.get("device", "auto"),
        placement=spec.get("placement", "pack"),
        fewest_gpus=spec.get("min_gpus") if job.get("attempt") else None,  # its first attempt needs all its GPUs
        global_batch=spec["batch_size"] // spec.get("accumulate", 1) if spec.get("batch_per") == "global" else None,
        gpu_model=spec.get("gpu_model"),
        gpu_memory_gb=spec.get("gpu_memory_gb"),
        mixed_gpus=spec.get("mixed_gpus", False),
        pool=spec.get("pool"),
    )


def _pool_of(host: Json) -> Pool:
    return Pool(str(host["name"]), [PoolNode.from_json(node) for node in host["nodes"]], host.get("problem"))


def _slots_of(host: Json) -> HostSlots:
    name = str(host["name"])
    counts = Counter(_class_of(name, slot) for slot in host["slots"] if _is_in_service(slot))
    peers = _info(host).get("peers") if host.get("address") is not None else None
    classes = tuple(ClassSlots(of, (), count) for of, count in counts.items())
    return HostSlots(name, classes, None if peers is None else str(peers))


def _class_of(host: str, slot: Json) -> SlotClass:
    if slot["kind"] == "cpu":
        return SlotClass(host, "cpu")
    return SlotClass(host, "gpu", str(slot.get("name") or ""), slot.get("memory_bytes") or 0)


def _is_in_service(slot: Json) -> bool:
    return slot.get("state") in ("free", "leased", "in_use_by_others")


def restarted(jobs: Sequence[Json]) -> Finding:
    """No live job was restarted many times."""
    often = [job for job in jobs if job.get("losses", 0) >= _OFTEN or job.get("restarts", 0) >= _OFTEN]
    if not often:
        return Finding("restarts", "ok", "no live job was restarted 3 times or more")
    named = _first_few([f"{job['id']} ({job['restarts']} failed, {job['losses']} lost)" for job in often])
    advice = "`hora show ID` names its hosts and errors. For lost attempts read the logs of the workers."
    return Finding("restarts", "warn", named, advice)


def _first_few(named: Sequence[str], most: int = 5) -> str:
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _info(host: Json) -> Mapping[str, object]:
    return host.get("info") or {}


def _versions(host: Json) -> Mapping[str, str]:
    versions = _info(host).get("versions")
    return versions if isinstance(versions, dict) else {}
