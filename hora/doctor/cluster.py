"""What `hora doctor` makes of the service's own words about its needs, its hosts and its jobs. Pure, from JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hora.render.hosts import is_free, is_usable
from hora.render.jobs import Finding
from hora.render.text import duration
from hora.service import Json, NotAuthorized, ProblemError
from jobs.scheduling.fitting import Cluster, HostSlots, SlotRequest

TIME_SERVER = "Let the machines follow a time server."
_CLOCK_LIMIT_S = 2.0
_OFTEN = 3  # restarts of one job that are worth a look


def advice_on(error: ProblemError) -> str:
    """What to do about a service that says no."""
    if isinstance(error, NotAuthorized):
        return "Check HORA_TOKEN."
    if "migrated" in (error.detail or ""):
        return "Run `python -m migrations upgrade` with the version of the api."
    return "Look at the database's log and the api's." if error.status == 503 else "See the api's log."


def of_needs(ready: Json) -> Iterator[Finding]:
    """What `GET /readyz` says beside that it is ready."""
    schema = str(ready.get("schema", "ok"))
    if schema == "ok":
        yield Finding("database", "ok", "it answers, and its tables are those of the api")
    else:
        yield Finding("database", "warn", f"its tables are at {schema}", "Bring api and workers to the newer version.")
    if ready.get("broker") == "away":
        advice = "Start it, and see its log: jobs run without it, but each step of their start takes up to a second."
        yield Finding("broker", "warn", "the api gets no answer from it", advice)
    else:
        yield Finding("broker", "ok", "it answers")


def of_hosts(hosts: Sequence[Json]) -> Iterator[Finding]:
    """The hosts: whether jobs can be placed, and what keeps them from single hosts."""
    yield placing(hosts)
    yield from quarantined(hosts)
    yield from versions(hosts)
    yield from clocks(hosts)
    yield from together(hosts)


def placing(hosts: Sequence[Json]) -> Finding:
    """There are hosts, alive and not drained, with slots to place a job on."""
    alive = [host for host in hosts if host.get("alive")]
    drained = [str(host["name"]) for host in alive if host.get("drained_at")]
    slots = [slot for host in hosts if is_usable(host) for slot in host.get("slots", [])]
    told = f"{len(alive)} of {len(hosts)} alive, {sum(map(is_free, slots))} of {len(slots)} slots free"
    told += f"; drained: {', '.join(drained)}" if drained else ""
    if not slots:
        advice = "`hora hosts undrain NAME` lets jobs in again." if drained else "Start a worker, and see its log."
        return Finding("hosts", "fail", told, f"No job can start. {advice}")
    if len(alive) < len(hosts):
        lost = ", ".join(str(host["name"]) for host in hosts if not host.get("alive"))
        advice = f"No heartbeat from {lost}: start the worker there, or `hora hosts forget NAME`."
        return Finding("hosts", "warn", told, advice)
    return Finding("hosts", "ok", told)


def quarantined(hosts: Sequence[Json]) -> Iterator[Finding]:
    """Slots that a process of an ended attempt still sits on, and how to find that."""
    for host in hosts:
        marks: dict[str, list[str]] = {}
        for slot in host.get("slots", []):
            if slot.get("state") == "quarantined":
                marks.setdefault(f"{slot.get('job_id')}.{slot.get('attempt')}", []).append(str(slot["index"]))
        for mark, indices in marks.items():
            told = f"{host['name']}: {', '.join(indices)}, by a process of {mark} that does not end"
            advice = f"There, look at what `grep -la HORA_ATTEMPT={mark} /proc/[0-9]*/environ` finds."
            yield Finding("slots", "warn", told, advice)


def versions(hosts: Sequence[Json]) -> Iterator[Finding]:
    """The hosts that are alive run one version of Hora."""
    known = {str(host["name"]): _versions(host).get("hora") for host in hosts if host.get("alive")}
    told = sorted(f"{name} {version}" for name, version in known.items() if version)
    if len({version for version in known.values() if version}) > 1:
        yield Finding("host versions", "warn", _few(told), "Bring all hosts and the api to one version.")


def clocks(hosts: Sequence[Json]) -> Iterator[Finding]:
    """The hosts' clocks agree with the database's, by which leases and heartbeats are counted."""
    for host in hosts:
        offset_s = _info(host).get("clock_offset_s")
        if host.get("alive") and isinstance(offset_s, int | float) and abs(offset_s) > _CLOCK_LIMIT_S:
            told = (
                f"{host['name']} is {duration(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'} the database"
            )
            yield Finding("host clocks", "warn", told, TIME_SERVER)


def together(hosts: Sequence[Json]) -> Iterator[Finding]:
    """Where there are several hosts, jobs can span them."""
    alive = [host for host in hosts if host.get("alive")]
    reached = [host for host in alive if host.get("address") is not None]
    if len(alive) < 2:
        return
    if not reached:
        told = "each runs only jobs of its own: none has an address for the others"
        yield Finding("several hosts", "ok", told, "For jobs on several hosts set HORA_SSH_DIR and HORA_ADDRESS.")
        return
    if alone := [str(host["name"]) for host in alive if host.get("address") is None]:
        advice = "The log of its worker says why, in a line with `no jobs on several hosts here`."
        yield Finding("several hosts", "warn", f"run only jobs of their own: {_few(alone)}", advice)
    groups = Counter(str(_info(host).get("peers")) for host in reached)
    largest = groups.most_common(1)[0][0]
    one = next(host for host in reached if str(_info(host).get("peers")) == largest)
    others = [host for host in reached if str(_info(host).get("peers")) != largest]
    if others:
        told = _few([f"{host['name']} ({_difference(host, one)})" for host in others])
        yield Finding("several hosts", "warn", f"cannot work together with {one['name']}: {told}", _EQUAL)


_EQUAL = (
    "Let them have equal versions, Pythons, users and HORA_HOME, HORA_DATA_ROOTS, HORA_MODELS, HORA_SSH_PORT, "
    "HORA_NETWORK_INTERFACE."
)


def _difference(host: Json, other: Json) -> str:
    """In what of all that has to be equal two hosts differ, as far as they tell it."""
    ours, theirs = ({"interface": _info(one).get("interface"), **_versions(one)} for one in (host, other))
    differ = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))
    return ", ".join(f"{name} {ours.get(name)} for {theirs.get(name)}" for name in differ) or "another setting differs"


def stuck(waiting: Sequence[Json], hosts: Sequence[Json]) -> Finding:
    """No queued job needs more slots than there are, or other ones, however long it waits."""
    cluster = Cluster(_slots_of(host) for host in hosts if is_usable(host) and host.get("slots"))
    requests = {str(job["id"]): _request_of(job) for job in waiting if not job.get("paused_at")}
    never = [
        f"{job_id} ({request.gpus} slots)"
        for job_id, request in requests.items()
        if cluster.attainable(request) is None
    ]
    if not never:
        return Finding("queue", "ok", f"{len(waiting)} jobs wait")
    advice = "They wait until hosts are added, come back or are undrained; or cancel them. `hora show ID` says why."
    return Finding("queue", "warn", f"cannot be placed on the hosts there are: {_few(never)}", advice)


def _request_of(job: Json) -> SlotRequest:
    spec = job.get("spec") or {}
    return SlotRequest(
        gpus=job["gpus"],
        device=spec.get("device", "auto"),
        placement=spec.get("placement", "pack"),
        fewest_gpus=spec.get("min_gpus") if job.get("attempt") else None,  # it starts with all that it asks for
        global_batch=spec.get("batch_size") if spec.get("batch_per") == "global" else None,
    )


def _slots_of(host: Json) -> HostSlots:
    usable = [slot for slot in host["slots"] if slot.get("state") in ("free", "leased")]
    peers = _info(host).get("peers") if host.get("address") is not None else None
    kind = str(host["slots"][0]["kind"])
    return HostSlots(str(host["name"]), kind, (), len(usable), None if peers is None else str(peers))


def restarted(jobs: Sequence[Json]) -> Finding:
    """No live job is restarted again and again."""
    often = [job for job in jobs if job.get("losses", 0) >= _OFTEN or job.get("restarts", 0) >= _OFTEN]
    if not often:
        return Finding("restarts", "ok", "no live job was restarted often")
    told = _few([f"{job['id']} ({job['restarts']} failed, {job['losses']} lost)" for job in often])
    advice = "`hora show ID` names its hosts and errors; losses are of hosts and supervisors: see the workers' logs."
    return Finding("restarts", "warn", told, advice)


def _few(named: Sequence[str], most: int = 5) -> str:
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _info(host: Json) -> Mapping[str, object]:
    return host.get("info") or {}


def _versions(host: Json) -> Mapping[str, str]:
    versions = _info(host).get("versions")
    return versions if isinstance(versions, dict) else {}
